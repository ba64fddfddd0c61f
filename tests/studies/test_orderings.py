"""The paper's orderings hold in the simulated world, with `router=ngrams`, at fixed seeds and by at least 3 s.e.

The standard error is that of the paired difference over users (means over the same draws), so a shared world and a
shared store make each comparison sharp.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from small_world import NoParts, build_evaluation, silent, small_study

from apm_lab.maths.inference import control_check
from apm_lab.maths.mapping import Gaussian
from apm_lab.maths.two_way import standard_error, two_way
from apm_lab.methods.ngrams import NgramRouter
from apm_lab.methods.routing import Routing
from apm_lab.methods.views import TrainView
from apm_lab.studies.arms import judge_arm

DRAWS = 4

pytestmark = pytest.mark.slow  # minutes of training together


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("orderings")


def evaluated(folder, label="margin", **settings):
    study = small_study(folder, method=Routing(NgramRouter(), label), draws=DRAWS, validation=0, **settings)
    return study.run(silent, NoParts())


def matrix(draws, arm):
    return np.stack([arms[arm].difference for arms in draws.arms])


def standardised(difference):
    """Return mean over s.e. of per-user differences (D, U), users being what is sampled."""
    table = two_way(difference, np.ones(difference.shape, dtype=bool), np.arange(len(difference)))
    return float(difference.mean()) / standard_error(table.user_means)


@pytest.fixture(scope="module")
def base(folder):
    return evaluated(folder, size=6, train=1000, test=400)


def test_oracle_beats_routing_beats_control(base):
    routing, oracle, twin = (matrix(base, arm) for arm in ("routing", "routing_oracle", "nonpersonalized"))
    assert standardised(oracle - routing) > 3
    assert standardised(routing - twin) > 3
    assert standardised(routing - matrix(base, "constant_style")) > 3
    assert standardised(matrix(base, "bayes") - routing) > 3


def test_control_arms_hold(base):
    for arm in ("nonpersonalized", "shuffled", "random_style"):
        known = np.ones(matrix(base, arm).shape, dtype=bool)
        assert control_check(matrix(base, arm), known, base.blocks).passed, arm


def test_rises_with_training_users(base, folder):
    few = evaluated(folder, size=6, train=100, test=400)
    assert standardised(matrix(base, "routing") - matrix(few, "routing")) > 3


def test_rises_with_turns(folder):
    # The same users with more history: the first prompts stay what they were.
    one, four = (evaluated(folder, size=6, train=500, test=400, turns=turns) for turns in (1, 4))
    assert standardised(matrix(four, "routing") - matrix(one, "routing")) > 3


def test_share_of_the_oracle_falls_with_pool_size(folder):
    shares, errors = [], []
    for size in (2, 8):
        draws = evaluated(folder, size=size, train=500, test=400)
        routing, oracle = matrix(draws, "routing"), matrix(draws, "routing_oracle")
        share = routing.mean() / oracle.mean()
        # delta method for a ratio of means over users
        per_user = (routing.mean(axis=0) - share * oracle.mean(axis=0)) / oracle.mean()
        shares.append(share)
        errors.append(per_user.std(ddof=1) / np.sqrt(per_user.size))
    assert shares[0] - shares[1] > 3 * np.hypot(*errors)


def test_one_sided_is_the_worst_label_strategy(folder):
    arms = {
        label: matrix(evaluated(folder, label, size=6, train=1000, test=1600), "routing")
        for label in ("margin", "two_sided", "one_sided", "regression")
    }
    for label in ("margin", "two_sided", "regression"):
        assert standardised(arms[label] - arms["one_sided"]) > 3, label


def test_a_router_trained_on_bare_judge_scores_reads_zero(folder):
    # Eq. 6 as printed, m_j = J_j(y_j+) - J_j(y_j-), has no user in it (SPEC 1, "What the simulated user says").
    # A Gaussian mapping weighs every principle, so every candidate's own score is there.
    study = small_study(folder, size=4, train=500, test=400, draws=DRAWS, validation=0, mapping=Gaussian())
    evaluation = build_evaluation(study)
    styles = np.arange(8)
    bare = evaluation.train.scores[0].max(axis=3)[:, :, styles, styles // 2].astype(float)
    differences = []
    for draw in range(DRAWS):
        view = evaluation.train_view(draw, evaluation.train, "bare")
        fields = {name: getattr(view, name) for name in view.__slots__}
        method = Routing(NgramRouter())
        method.fit(TrainView(**{**fields, "ratings": bare, "known": np.ones(bare.shape, dtype=bool)}))
        answers = method.respond(evaluation.test_view(draw))
        differences.append(judge_arm(evaluation.test, evaluation.weights[draw], answers).difference)
    known = np.ones((DRAWS, 400), dtype=bool)
    assert control_check(np.stack(differences), known, np.arange(DRAWS)).passed
