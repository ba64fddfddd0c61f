"""The training users' pairs with their texts are what a method sees, and nobody else is asked."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from small_world import build_evaluation, silent, small_study

from apm_lab.errors import ConfigError
from apm_lab.methods.preference_pairs import preference_pairs
from apm_lab.studies.training_pairs import training_pairs


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return small_study(tmp_path_factory.mktemp("pairs"), train=30, test=5, draws=3)


@pytest.mark.parametrize("draw", [0, 2])
def test_they_are_the_best_and_worst_of_what_a_method_sees(study, draw):
    (found,) = training_pairs(study, [draw], silent)
    evaluation = build_evaluation(study)
    view = evaluation.train_view(draw, evaluation.train, "any")
    expected, dropped = preference_pairs(view.ratings, view.known)
    assert (found.draw, found.dropped, found.blank, len(found.pairs)) == (draw, dropped, 0, len(expected))
    names = [f"{'avoid ' * (index % 2)}{view.principles[index // 2]}" for index in range(2 * len(view.principles))]
    ids = evaluation.train.users.ids
    for written, pair in zip(found.pairs, expected, strict=True):
        assert (written.user, written.turn) == (ids[pair.user], pair.turn)
        assert written.prompt == view.histories[pair.user][pair.turn]
        texts = view.candidates.generate([(pair.user, pair.turn, style, 0) for style in (pair.chosen, pair.rejected)])
        assert [written.chosen, written.rejected] == texts
        assert (written.chosen_style, written.rejected_style) == (names[pair.chosen.index], names[pair.rejected.index])
        assert (written.chosen_rating, written.rejected_rating) == (pair.chosen_rating, pair.rejected_rating)
        assert written.chosen_rating == np.nanmax(view.ratings[pair.user, pair.turn])


def test_draws_differ_and_come_in_order(study):
    found = list(training_pairs(study, [0, 1, 2], silent))
    assert [part.draw for part in found] == [0, 1, 2]
    assert [pair.chosen_style for pair in found[0].pairs] != [pair.chosen_style for pair in found[1].pairs]
    assert found[2] == next(training_pairs(study, [2], silent))


def test_the_model_under_evaluation_is_asked_nothing(study):
    class Nobody:
        def generate(self, calls):
            raise AssertionError("asked")

    assert next(training_pairs(replace(study, model=Nobody()), [0], silent)).pairs


def test_an_answer_without_text_gives_no_pair(study):
    class Blank:
        def generate(self, calls):
            return ["  " if place == 0 else text for place, text in enumerate(study.generator.generate(calls))]

    found = next(training_pairs(replace(study, generator=Blank()), [0], silent))
    assert found.blank == 1
    assert all(pair.chosen.strip() and pair.rejected.strip() for pair in found.pairs)


def test_without_training_users_there_are_none(study):
    with pytest.raises(ConfigError, match=r"users\.train=0: there are no training users"):
        next(training_pairs(replace(study, users=replace(study.users, train=0)), [0], silent))
