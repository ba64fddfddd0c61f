import numpy as np
import pytest

from apm_lab.data.pool import PRINCIPLES, slug
from apm_lab.data.store import Store
from apm_lab.errors import JudgeError
from apm_lab.judging.health import Health, area_under_curve, health_set, measure_health, require_health
from apm_lab.judging.judge import Judge
from apm_lab.language.recall import CallCounts
from apm_lab.language.simulated.constants import load_yaml
from apm_lab.language.simulated.judge import SimulatedJudge

TABLE_6 = [slug(name) for name in PRINCIPLES]
FOLLOWS = {name: set(sides["follow"]) for name, sides in health_set().items()}


def truth(text, question, key):
    """Rate as the texts were written: 9 for one that does what is asked, else 2."""
    follows = text in FOLLOWS[question.principle]
    return 9.0 if follows == (question.direction > 0) else 2.0


def deaf_to_avoid(text, question, key):
    """Hear the principle, and not whether following or avoiding it is asked."""
    return 9.0 if text in FOLLOWS[question.principle] else 2.0


def mute(text, question, key):
    return None


def test_a_judge_that_tells_is_healthy(judge_of):
    judge, _ = judge_of(truth, principles=TABLE_6)
    health = measure_health(judge)
    assert health.auc == dict.fromkeys(TABLE_6, 1.0)
    assert health.pearson == pytest.approx(-1)
    assert (health.imbalance, health.mirrored) == (0, False)
    assert health.pearsons == pytest.approx(dict.fromkeys(TABLE_6, -1.0))
    assert (health.faults, health.mute, health.unchecked) == ([], (), ())
    assert (health.n, health.n_missing) == (480, 0)
    require_health(health, allow_unhealthy=False)


def test_a_judge_that_ignores_avoid_fails_by_pearson_alone(judge_of):
    judge, _ = judge_of(deaf_to_avoid, principles=TABLE_6)
    health = measure_health(judge)
    assert min(health.auc.values()) == 1
    assert health.faults == ["Pearson(s+, s-) is +1.00, above -0.3"]
    assert health.imbalance == 7  # |9 + 9 - 11| and |2 + 2 - 11|
    with pytest.raises(JudgeError, match=r"Pearson.*judge\.allow_unhealthy=true"):
        require_health(health, allow_unhealthy=False)
    require_health(health, allow_unhealthy=True)


def test_a_mute_judge_is_unhealthy_and_its_silence_is_counted(judge_of):
    judge, stub = judge_of(mute, principles=("casual", "gentle"), retries=1)
    health = measure_health(judge)
    assert (health.auc, health.pearson, health.mute) == ({}, None, ("casual", "gentle"))
    assert health.n == health.n_missing == 2 * 24 * 2
    assert len(stub.asked) == 2 * health.n  # each asked once again
    assert health.faults == [f"it gave no verdict on the texts for '{name}'" for name in ("casual", "gentle")]
    with pytest.raises(JudgeError, match="no verdict on the texts for 'casual'"):
        require_health(health, allow_unhealthy=False)


def test_silence_on_one_side_of_one_principle_is_enough(judge_of):
    def half(text, question, key):
        return None if question.principle == "gentle" and text in FOLLOWS["gentle"] else truth(text, question, key)

    judge, _ = judge_of(half, principles=("casual", "gentle"))
    health = measure_health(judge)
    assert health.auc == {"casual": 1.0}
    assert health.mute == ("gentle",)
    assert health.n_missing == 12 * 2
    assert health.pearson == pytest.approx(-1)


def test_single_verdicts_that_are_missing_are_left_out_and_counted(judge_of):
    silent = health_set()["casual"]["avoid"][0]
    judge, _ = judge_of(
        lambda text, question, key: None if text == silent and question.direction < 0 else truth(text, question, key),
        principles=("casual",),
    )
    health = measure_health(judge)
    assert (health.n, health.n_missing, health.auc, health.faults) == (48, 1, {"casual": 1.0}, [])


def test_a_constant_judge_tells_nothing(judge_of):
    judge, _ = judge_of(lambda text, question, key: 5.0, principles=("casual", "gentle"))
    health = measure_health(judge)
    assert health.auc == {"casual": 0.5, "gentle": 0.5}
    assert health.faults == [
        "AUC on 'casual' is 0.50, below 0.65",
        "AUC on 'gentle' is 0.50, below 0.65",
        "mean AUC is 0.50, below 0.85",
        "Pearson(s+, s-) is +0.00, above -0.3",
    ]


def test_a_judge_that_rates_at_random_or_by_length_tells_nothing(judge_of):
    for rate in (lambda text, question, key: float(key[0] % 10 + 1), lambda text, question, key: 10 - len(text) % 10):
        judge, _ = judge_of(rate, principles=TABLE_6, identity=repr(rate))
        faults = measure_health(judge).faults
        assert any("mean AUC" in fault for fault in faults)
        assert any("Pearson" in fault for fault in faults)


def test_a_principle_without_health_texts_is_listed_as_unchecked(judge_of):
    judge, stub = judge_of(truth, principles=("rhymes", "casual"))
    health = measure_health(judge)
    assert (health.unchecked, list(health.auc), health.n) == (("rhymes",), ["casual"], 48)
    assert {question.principle for _, question in stub.asked} == {"casual"}
    nothing, stub = judge_of(truth, principles=("rhymes",))
    assert measure_health(nothing) == Health({}, None, ("rhymes",), 0, 0)
    assert measure_health(nothing).faults == stub.asked == []


@pytest.mark.parametrize(
    ("auc", "pearson", "faults"),
    [
        ([0.85, 0.85], -0.3, 0),
        ([0.65, 1.0, 0.9], -1.0, 0),
        ([0.84, 0.85], -0.5, 1),
        ([0.64, 1.0, 1.0], -0.5, 1),
        ([1.0], -0.29, 1),
        ([0.6, 0.6], 0.5, 4),
    ],
)
def test_the_bounds_are_the_published_ones(auc, pearson, faults):
    # mean AUC >= .85 with none below .65, and pooled Pearson(s+, s-) <= -.3
    health = Health({f"principle {n}": area for n, area in enumerate(auc)}, pearson, (), 48, 0)
    assert len(health.faults) == faults


@pytest.mark.parametrize(
    ("above", "below", "area"),
    [
        ([3, 5], [1, 3], (2 + 1.5) / 4),  # 3 > 1, 3 = 3, 5 > 1, 5 > 3
        ([9], [1, 2, 3], 1),
        ([1, 2], [3], 0),
        ([4, 4], [4], 0.5),
        ([1, 10], [5, 6], 0.5),
    ],
)
def test_area_under_curve_by_hand(above, below, area):
    a, b = np.array(above, np.float32), np.array(below, np.float32)
    assert area_under_curve(a, b) == area
    assert area_under_curve(b, a) == 1 - area


def test_without_texts_there_is_no_area():
    some, none = np.array([1.0], np.float32), np.zeros(0, np.float32)
    assert area_under_curve(none, some) is None
    assert area_under_curve(some, none) is None


def test_the_health_set_is_large_enough_and_nobody_elses():
    own = {text for sides in health_set().values() for side in sides.values() for text in side}
    assert set(health_set()) == set(TABLE_6)
    for sides in health_set().values():
        assert min(len(sides["follow"]), len(sides["avoid"])) >= 10
    assert len(own) == 240
    phrases = load_yaml("phrases.yaml")
    sentences = [text for key in health_set() for side in phrases[key].values() for text in side]
    assert not any(sentence in text for sentence in sentences for text in own)


@pytest.mark.parametrize("size", range(1, 11))
def test_the_simulated_judge_is_healthy_on_every_pool_of_table_6(tmp_path, size):
    judge = Judge(SimulatedJudge(), Store(tmp_path / "s.sqlite").scores, CallCounts(), TABLE_6[:size])
    health = measure_health(judge)
    assert health.faults == []
    assert health.n == size * 48
    assert health.pearson < -0.8


def test_a_judge_that_reads_a_style_and_its_opposite_alike_is_in_balance(tmp_path):
    # s+ + s- = 11 on every text, so that E|s+ + s- - 11| = 0 and Pearson(s+, s-) = -1
    judge = Judge(SimulatedJudge("expected"), Store(tmp_path / "s.sqlite").scores, CallCounts(), TABLE_6)
    for place, name in enumerate(TABLE_6):
        sides = health_set()[name]
        (plus, plus_known), (minus, minus_known) = judge.ratings([*sides["follow"], *sides["avoid"]], place)
        assert plus_known.all()
        assert minus_known.all()
        assert np.abs(plus + minus - 11).max() < 1e-5
    assert measure_health(judge).pearson == pytest.approx(-1, abs=1e-6)
