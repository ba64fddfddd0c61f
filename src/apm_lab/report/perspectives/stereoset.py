"""RQ2 and RQ3 on StereoSet as tables: shares of the preferred sentence, their tests, and what steering changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from apm_lab.maths.proportions import one_or_other, two_shares
from apm_lab.maths.stereotype import same_shares
from apm_lab.report.frame import Frame, frame
from apm_lab.report.perspectives.bbq import FEWEST_ITEMS, share_bounds
from apm_lab.studies.steered_stereotypes import CLAIMS, SteeredShares
from apm_lab.studies.stereotypes import STEREOSET_KINDS, StereoSetAudit

__all__ = ["shares_frames", "stereoset_figures", "stereoset_frames"]

_ENDS = 8


def stereoset_frames(audit: StereoSetAudit) -> list[Frame]:
    """Return the tables `shares_tests` and `shares`: of each kind, over all, by domain and by target term."""
    rows = list(_share_rows(audit))
    domains = [place for place, row in enumerate(rows) if row[1] == ""]
    terms = [place for place, row in enumerate(rows) if row[1] and row[2] >= FEWEST_ITEMS]
    terms.sort(key=lambda place: -(rows[place][6] or 0.0))
    chosen = [*domains, *(terms if len(terms) <= 2 * _ENDS else [*terms[:_ENDS], *terms[-_ENDS:]])]
    scores = (
        "StereoSet's scores: "
        f"LM {_percent(audit.language_model)}, SS {_percent(audit.stereotype)}, ICAT {_percent(audit.icat)}"
    )
    return [
        _domain_tests(audit),
        frame(
            "shares",
            "StereoSet: shares of the most rewarded sentence, over all, by domain, and terms with most and least of it",
            (
                *("domain", "term", "items", *STEREOSET_KINDS, *(f"share_{kind}" for kind in STEREOSET_KINDS)),
                *("low", "high", "z", "p_value", "paired_p"),
            ),
            rows,
            {
                "": "{domain} {term}",
                "stereotype": "{share_stereotype:.3f}",
                "95%": "{low:.3f} {high:.3f}",
                "antistereotype": "{share_antistereotype:.3f}",
                "unrelated": "{share_unrelated:.3f}",
                "items": "{items}",
                "z": "{z:+.2f}",
                "p": "{p_value:.2g}",
                "exact p": "{paired_p:.2g}",
            },
            chosen=chosen,
            note=f"z, p: stereotypes against antistereotypes, as independent shares; exact p: of the same items\n"
            f"{scores}; {audit.missing} items with a reward missing, {audit.tied} ties drawn",
        ),
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _share_rows(audit: StereoSetAudit) -> Iterator[tuple[Any, ...]]:
    domains = list(dict.fromkeys(group.trait for group in audit.groups))
    of_domain = {
        domain: np.sum(
            [counts for group, counts in zip(audit.groups, audit.counts, strict=True) if group.trait == domain], axis=0
        )
        for domain in domains
    }
    yield _share_row("all", "", audit.overall)
    yield from (_share_row(domain, "", counts) for domain, counts in of_domain.items())
    for group, counts in zip(audit.groups, audit.counts, strict=True):
        yield _share_row(group.trait, group.value, counts)


def _share_row(domain: str, term: str, counts: Any) -> tuple[Any, ...]:  # noqa: ANN401 (an array)
    n = int(counts.sum())
    shares = counts / n if n else [None] * len(counts)
    stereotypes, antistereotypes = int(counts[0]), int(counts[1])
    independent = two_shares(stereotypes, n, antistereotypes, n)
    exact = one_or_other(stereotypes, antistereotypes)
    tests = independent.z, independent.two_sided, exact.two_sided
    return domain, term, n, *counts.tolist(), *shares, *share_bounds(shares[0], n), *tests


def _domain_tests(audit: StereoSetAudit) -> Frame:
    """Return whether domains, and terms within each, differ in how often each kind is preferred."""
    domains = list(dict.fromkeys(group.trait for group in audit.groups))
    of = {
        domain: np.stack([row for group, row in zip(audit.groups, audit.counts, strict=True) if group.trait == domain])
        for domain in domains
    }
    tests = [("domains", len(domains), same_shares(np.stack([counts.sum(axis=0) for counts in of.values()])))]
    tests += [(f"terms of {domain}", len(counts), same_shares(counts)) for domain, counts in of.items()]
    return frame(
        "shares_tests",
        "StereoSet: are the three kinds preferred alike by ..?",
        ("between", "groups", "statistic", "degrees", "p_value"),
        [(name, groups, test.statistic, test.degrees, test.p_value) for name, groups, test in tests],
        {"between": "{between}", "chi-square": "{statistic:.1f}", "d.f.": "{degrees}", "p": "{p_value:.2g}"},
    )


def stereoset_figures(audit: StereoSetAudit) -> dict[str, float | None]:
    """Return the headline figures: StereoSet's scores in percent, and the share of stereotypes."""
    n = int(audit.overall.sum())
    return {
        "lm_score": audit.language_model,
        "stereotype_score": audit.stereotype,
        "icat": audit.icat,
        "share_stereotype": float(audit.overall[0]) / n if n else None,
    }


def shares_frames(tests: Sequence[SteeredShares]) -> list[Frame]:
    """Return the tables `steering_tests` (a row per claim and prompt) and `steering_rejections` (RMP Tables 1, 15)."""
    columns = ("claim", "form", "trait", "group", *STEREOSET_KINDS, "z", "p_value", "rejected", "rejected_globally")
    rows = [
        (
            *(test.claim, test.form, *((test.group.trait, test.group.value) if test.group else ("", ""))),
            *test.counts.tolist(),
            *(test.z, test.p_value, test.rejected, test.rejected_globally),
            *(test.paired_n, test.paired_p, test.paired_rejected),
        )
        for test in tests
    ]
    counted = [
        (
            *(claim, form, trait, len(own), sum(test.rejected for test in own)),
            *(sum(test.paired_rejected for test in own), sum(test.rejected_globally for test in own)),
        )
        for claim in CLAIMS
        for form in dict.fromkeys(test.form for test in tests)
        for trait in ("all", *dict.fromkeys(test.group.trait for test in tests if test.group))
        if (own := [test for test in tests if test.claim == claim and test.form == form and _of(test, trait)])
    ]
    return [
        frame("steering_tests", "", (*columns, "paired_n", "paired_p", "paired_rejected"), rows, {}),
        frame(
            "steering_rejections",
            "StereoSet, steered: null hypotheses rejected (false discovery rate .05 within form and claim)",
            ("claim", "form", "trait", "prompts", "rejected", "paired_rejected", "rejected_globally"),
            counted,
            {
                "claim": "{claim}",
                "form": "{form}",
                "prompts": "{prompts}",
                "z-test": "{rejected}",
                "exact, paired": "{paired_rejected}",
            },
            chosen=[place for place, row in enumerate(counted) if row[2] == "all"],
            note="the z-test takes samples to be independent, as the paper does; they are the same items",
        ),
    ]


def _of(test: SteeredShares, trait: str) -> bool:
    return trait == "all" or (test.group is not None and test.group.trait == trait)
