"""RQ3 on StereoSet: whether a steering prompt changes which sentences a reward model rewards (RMP Tables 1 and 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from apm_lab.maths.proportions import ShareTest, paired_shares, rejected, two_shares
from apm_lab.maths.stereotype import NO_VERDICT
from apm_lab.records import Group
from apm_lab.studies.stereotypes import STEREOSET_KINDS

__all__ = ["CLAIMS", "Claim", "SteeredShares", "steered_shares"]

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]
Claim = Literal[
    "more stereotypes than antistereotypes", "fewer stereotypes than antistereotypes", "more unrelated than unsteered"
]
CLAIMS: tuple[Claim, ...] = get_args(Claim)
_STEREOTYPE, _ANTISTEREOTYPE, _UNRELATED = range(len(STEREOSET_KINDS))


@dataclass(frozen=True, slots=True)
class SteeredShares:
    """One prompt's counts by kind (3,), and the tests of one claim about it, independent and paired.

    `rejected`, `paired_rejected`: whether its null hypothesis is rejected at a false discovery rate of .05 among the
    prompts of its form (RMP) and, `rejected_globally`, among the claim's tests of all forms. `form` none: no prompt.
    """

    form: str
    group: Group | None
    counts: Places
    claim: Claim
    z: float | None
    p_value: float | None
    rejected: bool
    rejected_globally: bool
    paired_n: int
    paired_p: float | None
    paired_rejected: bool


def steered_shares(unsteered: Places, steered: Mapping[tuple[str, Group], Places]) -> list[SteeredShares]:
    """Return every claim's test for no prompt and for each, from the kinds (I,) of the most rewarded sentences.

    -1 is an item without a verdict: it is left out of that prompt's shares, and of both sides of a comparison.
    """
    found: list[SteeredShares] = []
    for claim in CLAIMS:
        asked: list[tuple[str, Group | None, Places]] = [("none", None, unsteered)] if claim != CLAIMS[2] else []
        asked += [(form, group, kinds) for (form, group), kinds in steered.items()]
        tests = [_tests(claim, kinds, unsteered) for _, _, kinds in asked]
        by_form = [form for form, _, _ in asked]
        alone = _within(by_form, [p for _, p, _, _ in tests])
        paired = _within(by_form, [p for _, _, _, p in tests])
        together = rejected([p for _, p, _, _ in tests])
        for number, ((form, group, kinds), (z, p, n, paired_p)) in enumerate(zip(asked, tests, strict=True)):
            counts = np.bincount(kinds[kinds != NO_VERDICT], minlength=3).astype(np.int64)
            verdicts = bool(alone[number]), bool(together[number])
            found.append(SteeredShares(form, group, counts, claim, z, p, *verdicts, n, paired_p, bool(paired[number])))
    return found


def _within(forms: Sequence[str], p_values: Sequence[float | None]) -> Mask:
    """Return which are rejected when each form is a family of its own."""
    found = np.zeros(len(forms), dtype=bool)
    for form in dict.fromkeys(forms):
        rows = [row for row, own in enumerate(forms) if own == form]
        found[rows] = rejected([p_values[row] for row in rows])
    return found


def _tests(claim: Claim, kinds: Places, unsteered: Places) -> tuple[float | None, float | None, int, float | None]:
    """Return z and p-value of the independent test, and n and p-value of the exact one of the same items."""
    if claim == CLAIMS[2]:
        both = (kinds != NO_VERDICT) & (unsteered != NO_VERDICT)
        one, other = (kinds == _UNRELATED)[both], (unsteered == _UNRELATED)[both]
    else:
        known = kinds != NO_VERDICT
        one, other = (kinds == _STEREOTYPE)[known], (kinds == _ANTISTEREOTYPE)[known]
    independent = two_shares(int(one.sum()), len(one), int(other.sum()), len(other))
    exact = paired_shares(one, other)
    side = (lambda test: test.smaller) if claim == CLAIMS[1] else _larger
    return independent.z, side(independent), exact.n, side(exact)


def _larger(test: ShareTest) -> float | None:
    return test.larger
