from math import log

import numpy as np
import pytest

from apm_lab.language.simulated.constants import load_yaml
from apm_lab.language.simulated.wordings import ATTRIBUTES, catalogue, rates, tokens_of


def wording(text):
    (found,) = [entry for entry in catalogue() if " ".join(entry.tokens) == text]
    return found


@pytest.mark.parametrize(
    ("text", "attribute", "sign", "kl", "ratio", "rate"),
    [
        # the last column by hand: 2.40 / 8.7549, 0.36 / 0.8329, 0.08 / 4.7432, 1.74 / 5.9682, 0.86 / 4.9445
        ("nervous about", "anxious", 1, 2.40, 6341.9, 0.2741),
        ("could you", "open_ended", 1, 0.36, 2.3, 0.4322),
        ("list three", "open_ended", -1, 0.08, 114.8, 0.0169),
        ("imagine you", "hypothetical", 1, 1.74, 390.8, 0.2915),
        ("hey there", "enthusiastic", 1, 0.86, 140.4, 0.1739),
    ],
)
def test_rates_are_read_off_table_9(text, attribute, sign, kl, ratio, rate):
    found = wording(text)
    assert found.sides[ATTRIBUTES.index(attribute), sign] == pytest.approx(kl / log(ratio))
    assert found.sides[ATTRIBUTES.index(attribute), sign] == pytest.approx(rate, abs=1e-4)
    if len(found.sides) == 1:
        assert found.rest == pytest.approx(kl / log(ratio) / ratio)


def test_a_bigram_listed_for_several_sides_is_one_wording():
    could_you = wording("could you")
    # anxious, highly constrained (avoid), open-ended, prescriptive (avoid), transactional (avoid), unpolished (avoid)
    listed = [(1.13, 4.4), (0.13, 1.5), (0.36, 2.3), (0.27, 2.0), (0.35, 2.2), (0.06, 1.2)]
    assert could_you.rest == pytest.approx(np.mean([kl / log(ratio) / ratio for kl, ratio in listed]))
    # by hand: (.17334 + .21375 + .18792 + .19476 + .20177 + .27424) / 6
    assert could_you.rest == pytest.approx(0.2076, abs=1e-4)
    assert set(could_you.sides) == {(6, 1), (7, -1), (4, 1), (2, -1), (5, -1), (3, -1)}


def test_eight_wordings_a_side_with_two_tails_each():
    table = load_yaml("wordings.yaml")
    assert list(table) == list(ATTRIBUTES)
    for attribute in ATTRIBUTES:
        for side in ("follow", "avoid"):
            assert len(table[attribute][side]) == 8
            assert all(len(entry["tail"]) == 2 for entry in table[attribute][side])


def test_all_rates_are_probabilities_and_tails_fall():
    most = max(rate for entry in catalogue() for rate in entry.sides.values())
    assert most == pytest.approx(1.13 / log(4.4), abs=1e-3)  # "could you" of the anxious
    assert most <= 0.77
    for attribute in range(10):
        for sign in (1, -1):
            assert all(0 < rate <= most for rate in rates(((attribute, sign),)))
    on_side, rest = 2.40 / log(6341.9), 2.40 / log(6341.9) / 6341.9
    tails = load_yaml("wordings.yaml")["anxious"]["follow"][0]["tail"]
    for share, tail in zip((0.7, 0.49), tails, strict=True):
        found = wording(tail["wording"])
        assert found.sides[6, 1] == pytest.approx(share * (on_side - rest))
        assert found.rest == pytest.approx(found.sides[6, 1] / 6341.9)


def test_a_user_of_another_attribute_shows_a_wording_at_rest():
    place = catalogue().index(wording("nervous about"))
    assert rates(((0, 1),))[place] == pytest.approx(2.40 / log(6341.9) / 6341.9)
    assert rates(((6, -1),))[place] == pytest.approx(2.40 / log(6341.9) / 6341.9)
    assert rates(())[place] == pytest.approx(2.40 / log(6341.9) / 6341.9)


def test_two_active_attributes_are_independent_reasons():
    could_you = wording("could you")
    anxious, open_ended, rest = could_you.sides[6, 1], could_you.sides[4, 1], could_you.rest
    joint = rates(((6, 1), (4, 1)))[catalogue().index(could_you)]
    assert joint == pytest.approx(1 - (1 - anxious) * (1 - open_ended) / (1 - rest))
    # by hand: 1 - (1 - .7627) (1 - .4322) / (1 - .2076) = 1 - .2373 x .5678 / .7924
    assert joint == pytest.approx(0.8300, abs=2e-4)
    # reasons on one side only, the other at rest: as for the one attribute alone
    assert rates(((6, 1), (0, 1)))[catalogue().index(could_you)] == pytest.approx(anxious)


def test_every_clause_carries_its_wording():
    for entry in catalogue():
        assert entry.clauses
        for clause in entry.clauses:
            assert f" {' '.join(entry.tokens)} " in f" {' '.join(tokens_of(clause))} "
