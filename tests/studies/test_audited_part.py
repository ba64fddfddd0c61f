"""A random part of an audit's data: the same for one seed, nested, in order, and every array cut alike."""

import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from surveys import survey

from apm_lab.data.sources.stereoset import StereoSetItem
from apm_lab.studies.audited_part import audited_ids, random_part


def items(count):
    return [
        StereoSetItem(f"s{n}", "intersentence", "race", "term", f"Context {n}.", ("a", "b", "c"), 0, 1, 2)
        for n in range(count)
    ]


def numbered(questions=40, groups=3):
    """A survey whose every number names its question, question q having 2 + q % 3 choices."""
    sizes = 2 + np.arange(questions) % 3
    cells = np.broadcast_to(np.arange(questions, dtype=np.float64)[None, :, None], (groups, questions, 4))
    rows = np.broadcast_to(np.arange(questions), (groups, questions))

    def halves(rng):
        half = cells + rng.integers(0, 2), rows % 2 == 0
        return half, half

    plain = survey(cells, sizes=sizes, answered=rows, overall=cells[0], halves=halves, positions=cells[0])
    return replace(plain, refused=rows + 0.5, left_out={"a reason": 3})


def test_a_part_is_the_same_for_one_seed_in_the_datas_order_and_another_for_another():
    found = [audited_ids(random_part(items(100), 20, seed)) for seed in (0, 0, 1)]
    places = [int(name[1:]) for name in found[0]]
    assert len(places) == 20 and places == sorted(places)
    assert found[0] == found[1] != found[2]


def test_a_smaller_part_lies_in_a_larger_one():
    small, large = (set(audited_ids(random_part(items(100), most, 5))) for most in (20, 60))
    assert small < large


@pytest.mark.parametrize("most", [None, 7, 8])
def test_all_is_all(most):
    data = items(7)
    assert random_part(data, most, 0) is data


def test_what_must_be_there_is_there_and_counts():
    found = audited_ids(random_part(numbered(), 5, 0, ["q3", "q31", "not there"]))
    assert len(found) == 5 and {"q3", "q31"} <= set(found)
    assert audited_ids(random_part(numbered(), 1, 0, ["q31", "q3"])) == ["q3", "q31"]


def test_every_array_of_a_survey_is_cut_to_the_same_questions():
    whole = numbered()
    part = random_part(whole, 6, 2)
    places = [int(question.id[1:]) for question in part.questions]
    K = max(len(question.choices) for question in part.questions)
    assert part.real.shape == (6, K) and (part.real.sum(axis=1) == [2 + place % 3 for place in places]).all()
    for name in ("shares", "positions", "overall"):
        array = getattr(part, name)
        assert array.shape[-2:] == (6, K)
        assert (array == np.array(places)[:, None]).all(), name
    for name, more in (("answered", 0), ("refused", 0.5)):
        assert (getattr(part, name) == np.array(places) + more).all(), name
    assert (part.overall_answered == 3 * np.array(places)).all()
    kept = {each.name for each in fields(part) if getattr(part, each.name) is getattr(whole, each.name)}
    assert kept == {"name", "groups", "people"}
    assert part.left_out == {"a reason": 3, "question left out by study.most_questions": 34}


def test_halves_are_cut_and_drawn_as_of_the_whole():
    part = random_part(numbered(), 6, 2)
    places = np.array([int(question.id[1:]) for question in part.questions])
    drawn = np.random.default_rng(1).integers(0, 2)
    for shares, has in part.halves(np.random.default_rng(1)):
        assert shares.shape == (3, *part.real.shape) and (shares == places[:, None] + drawn).all()
        assert (has == (places % 2 == 0)).all()


def test_a_part_is_no_wider_than_its_questions():
    part = random_part(numbered(), 1, 0, ["q0"])
    assert part.shares.shape == (3, 1, 2)
    assert part.positions.shape == part.overall.shape == part.real.shape == (1, 2)
