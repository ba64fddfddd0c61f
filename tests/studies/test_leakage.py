import contextlib
import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from small_world import build_evaluation, small_study

from apm_lab.methods.ngrams import NgramRouter
from apm_lab.methods.nonpersonalized import NonPersonalized
from apm_lab.methods.routing import Routing
from apm_lab.records import Response, Style
from apm_lab.studies.leakage import changed_responses, hidden_arrays, leaks, reachable_secrets
from apm_lab.training.encoder_router import EncoderRouter
from apm_lab.training.queued_log import queued
from apm_lab.training.trainer_settings import TrainerSettings


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    study = small_study(tmp_path_factory.mktemp("leaks"), judged_validation=True)
    return build_evaluation(study)


def small_encoder():
    trainer = TrainerSettings(threads=1)
    return EncoderRouter(layers=1, hidden_size=32, heads=2, intermediate_size=32, epochs=1, trainer=trainer)


METHODS = {
    "nonpersonalized": NonPersonalized,
    **{
        f"ngrams {label}": functools.partial(lambda label: Routing(NgramRouter(), label), label)
        for label in ("margin", "two_sided", "one_sided", "regression")
    },
    "modernbert": lambda: Routing(small_encoder()),
}


@pytest.mark.parametrize("name", METHODS)
def test_responses_do_not_depend_on_hidden_arrays_once_the_views_are_built(evaluation, name):
    assert changed_responses(evaluation, 0, METHODS[name]()) == 0


@pytest.mark.parametrize("name", METHODS)
def test_no_hidden_object_can_be_reached(evaluation, name):
    method = METHODS[name]()
    train, test = evaluation.train_view(0, evaluation.train, name), evaluation.test_view(0)
    method.fit(train)
    method.respond(test)
    assert reachable_secrets(evaluation, {"train": train, "test": test, "method": method}) == []


def test_what_the_oracle_is_shown_counts_as_hidden(evaluation):
    assert reachable_secrets(evaluation, {"view": SimpleNamespace(preferences=evaluation.weights[0].copy())})


def test_the_log_of_a_run_leads_to_no_tracker_and_a_plain_closure_does(tmp_path):
    class Tracker:
        def __init__(self, study):
            self.config = {"pool": {"attributes": list(study.pool.attributes)}}

        def log(self, name, figures):
            pass

    for wrap, clean in ((queued, True), (lambda log: contextlib.nullcontext((log, None)), False)):
        study = small_study(tmp_path, train=12, test=6, validation=0)
        with wrap(Tracker(study).log) as (log, _):
            study.log = log
            evaluation = build_evaluation(study)
            found = leaks(evaluation, "routing", Routing(NgramRouter()))
        assert (found == []) == clean, found


class Cheat:
    """Answers by the true preferences when it finds them where the leak left them."""

    def __init__(self):
        self.found = None
        self.helper = None

    def fit(self, view):
        self.view = view

    def respond(self, view):
        weights = self.look(view)
        tops = np.abs(weights).argmax(axis=1)
        signs = np.sign(weights[np.arange(len(tops)), tops])
        return [Response(style=Style(int(j), int(s) or 1)) for j, s in zip(tops, signs, strict=True)]


class AttributesOnTheView(Cheat):
    """Leak 1: the test view carries the attributes, and the train view the mapping."""

    def look(self, view):
        return view.attributes @ self.view.mapping.T


class ClosureInAHandle(Cheat):
    """Leak 2: a callback captured the preferences."""

    def look(self, view):
        return self.view.log({})


class PartialInTheTrainer(Cheat):
    """Leak 3: the method's own trainer holds a bound method of the evaluation."""

    def look(self, view):
        return self.trainer.callbacks[0]()


@dataclass
class Leaky:
    """An evaluation whose views leak in one of three ways."""

    real: object
    kind: type

    def __getattr__(self, name):
        return getattr(self.real, name)

    def train_view(self, draw, side, name):
        view, weights = self.real.train_view(draw, side, name), self.real.weights
        extra = {"mapping": self.real.mappings[draw]} if self.kind is AttributesOnTheView else {}
        fields = {field: getattr(view, field) for field in view.__slots__}
        if self.kind is ClosureInAHandle:
            fields["log"] = lambda _figures: weights[draw]
        return SimpleNamespace(**fields, **extra)

    def test_view(self, draw):
        view = self.real.test_view(draw)
        extra = {"attributes": self.real.test.users.attributes} if self.kind is AttributesOnTheView else {}
        return SimpleNamespace(**{field: getattr(view, field) for field in view.__slots__}, **extra)


class _Preferences:
    def __init__(self, evaluation):
        self.evaluation = evaluation

    def of(self, draw):
        return self.evaluation.weights[draw]


@pytest.mark.parametrize("kind", [AttributesOnTheView, ClosureInAHandle, PartialInTheTrainer])
def test_both_checks_catch_a_planted_leak(evaluation, kind):
    leaky, method = Leaky(evaluation, kind), kind()
    if kind is PartialInTheTrainer:
        method.trainer = SimpleNamespace(callbacks=[functools.partial(_Preferences(evaluation).of, 0)])
    assert changed_responses(leaky, 0, method) > 0
    train, test = leaky.train_view(0, evaluation.train, "leaky"), leaky.test_view(0)
    method.fit(train)
    roots = {"train": train, "test": test, "method": method}
    assert reachable_secrets(evaluation, roots) != []


def test_a_copy_of_a_hidden_array_is_found(evaluation):
    for name, array in hidden_arrays(evaluation).items():
        found = reachable_secrets(evaluation, {"root": [array.copy()]})
        assert found, name


def test_hidden_arrays_have_their_values_back_after_a_check(evaluation):
    before = {name: array.copy() for name, array in hidden_arrays(evaluation).items()}
    changed_responses(evaluation, 0, NonPersonalized())
    for name, array in hidden_arrays(evaluation).items():
        np.testing.assert_array_equal(array, before[name])


def test_ids_and_row_order_carry_nothing_about_attributes(tmp_path):
    study = small_study(tmp_path, size=3)
    people = study._people("train", 600)
    positions = [np.flatnonzero(people.attributes[:, i] == sign) for i in range(3) for sign in (1, -1)]
    by_id = np.argsort(people.ids)
    ranks = np.empty(len(by_id))
    ranks[by_id] = np.arange(len(by_id))
    for order in (np.arange(600.0), ranks):
        means = [order[members].mean() for members in positions]
        # s.d. of a class mean of 100 of 600 ranks is 600 / sqrt(12 * 100) * sqrt(5 / 6) = 15.8
        assert np.abs(np.array(means) - 299.5).max() < 4 * 15.8
