import itertools
import math

import numpy as np
import pytest
from scipy import stats

from apm_lab.errors import ConfigError
from apm_lab.maths.power import minimum_detectable_delta, simulate_coverage

SETTINGS = list(itertools.product((3, 4, 10), (0.0, 0.25), (False, True)))


@pytest.mark.parametrize(
    ("draws", "users", "normal", "t"),
    [(10, 1000, 0.24, 0.27), (10, 4000, 0.23, 0.25), (20, 500, 0.18, 0.19), (40, 250, 0.14, 0.14)],
)
def test_published_sizes(draws, users, normal, t):
    assert round(minimum_detectable_delta(users, draws), 2) == normal
    assert round(minimum_detectable_delta(users, draws, reference="t"), 2) == t


def test_normal_reference_by_hand():
    # SE^2 = .0625 / 10 + 9 / 10000 = .00715; (1.95996 + .84162) * .08456
    assert minimum_detectable_delta(1000, 10) == pytest.approx(0.23690, abs=1e-5)


def test_t_reference_has_the_power_it_names():
    error = math.sqrt(0.25**2 / 5 + 9 / 500)
    delta = minimum_detectable_delta(100, 5, reference="t")
    means = np.random.default_rng(0).normal(delta, error * math.sqrt(5), (40_000, 5))
    found = stats.ttest_1samp(means, 0, axis=1)
    share = ((found.pvalue < 0.05) & (found.statistic > 0)).mean()
    assert share == pytest.approx(0.8, abs=4 * math.sqrt(0.16 / 40_000))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"users": 0}, "users=0"),
        ({"draws": 0}, "draws=0"),
        ({"draws": 1, "reference": "t"}, "draws=1: expected at least 2"),
        ({"power": 0.05}, r"power=0\.05: expected a number between alpha=0\.05 and 1"),
        ({"alpha": 5}, "alpha=5"),
        ({"sd_user": -1}, "sd_user=-1"),
        ({"reference": "norm"}, "did you mean normal"),
    ],
)
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        minimum_detectable_delta(**({"users": 100, "draws": 10} | arguments))


@pytest.mark.parametrize(("blocks", "sd_draw", "shared"), SETTINGS)
def test_coverage_roughly(blocks, sd_draw, shared):
    repetitions = 250
    found = simulate_coverage(blocks, sd_draw, shared, repetitions, seed=1, users=200, sd_user=3 / math.sqrt(5))
    for share, bound in ((found.at_95, 0.94), (found.at_999, 0.995)):
        assert share > bound - 3.5 * math.sqrt(bound * (1 - bound) / repetitions)
    assert found.width > 1.7  # an interval at 95% can't be much narrower than 1.96 true s.e.
    if blocks == 10:
        assert found.width < 3.2
