"""Summaries of synthetic arms: a control arm that is not zero voids the run, and nothing in it is significant."""

import io

import numpy as np
import pytest
from rich.console import Console

from apm_lab.judging.health import Health
from apm_lab.report.personalization import results_columns, summarise, users_columns
from apm_lab.report.table import print_summary
from apm_lab.studies.arms import ArmDraw
from apm_lab.studies.personalization import PersonalizationDraws

U, D = 200, 6
HEALTH = Health(auc={"casual": 0.9}, pearson=-0.8, unchecked=(), n=24, n_missing=0)


def arm(difference, known=None):
    known = np.ones(len(difference), dtype=bool) if known is None else known
    neutral = np.full(len(difference), 5.0)
    styled, none = np.ones(len(difference), dtype=bool), np.array(0)
    column = np.zeros(len(difference), dtype=np.int64)
    return ArmDraw(column, difference, known, neutral + difference, neutral, styled, known, none, none)


def draws(**means):
    rng = np.random.default_rng(0)
    zero = {"routing": 1.0, "nonpersonalized": 0.0, "shuffled": 0.0, "random_style": 0.0, "constant_style": 0.2}
    arms = [{name: arm(rng.normal(mean, 1, U)) for name, mean in {**zero, **means}.items()} for _ in range(D)]
    ids = tuple(f"u{number}" for number in range(U))
    return PersonalizationDraws("routing", arms, np.arange(D), ids, HEALTH, ("casual", "not casual"))


def printed(found, health=HEALTH):
    console = Console(file=io.StringIO(), width=140)
    print_summary(console, "title", summarise(found, 0), health)
    return console.file.getvalue()


def test_zero_controls_leave_the_run_valid():
    summary = summarise(draws(), 0)
    assert summary.void == ()
    assert summary.comparisons["constant_style"].significant
    assert ", significant" in printed(draws())
    assert "VOID" not in printed(draws())


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        ({"pearson": -0.8}, "least 0.90, Pearson(s+, s-) -0.80\n"),
        ({"pearson": -0.8, "imbalance": 1.234}, "least 0.90, Pearson(s+, s-) -0.80, mean |s+ + s- - 11| 1.23\n"),
        ({"pearson": None, "mirrored": True}, "least 0.90, s- = 11 - s+ by construction\n"),
    ],
)
def test_the_footer_says_how_follow_and_avoid_ratings_fit_together(figures, line):
    health = Health(auc={"casual": 0.9}, unchecked=(), n=24, n_missing=0, **figures)
    shown = "\n".join(row.rstrip() for row in printed(draws(), health).splitlines()) + "\n"
    assert line in shown


@pytest.mark.parametrize("name", ["nonpersonalized", "shuffled", "random_style"])
def test_a_control_that_is_not_zero_voids_the_run(name):
    found = draws(**{name: 0.4})
    summary = summarise(found, 0)
    assert summary.void == (name,)
    assert set(results_columns(found, summary, 0)["void"]) == {True}
    text = printed(found)
    assert f"VOID: control arm {name} is not zero" in text
    assert ", significant" not in text


def test_a_positive_constant_style_is_no_fault():
    assert summarise(draws(constant_style=2.0), 0).void == ()


def test_shuffled_is_compared_with_nothing():
    assert "shuffled" not in summarise(draws(), 0).comparisons


def test_figures_by_hand():
    """Two draws of four users: +1 +1 -2 0 and +3 +1 -1 missing."""
    known = np.array([True, True, True, False])
    arms = [
        {"routing": arm(np.array([1.0, 1.0, -2.0, 0.0]))},
        {"routing": arm(np.array([3.0, 1.0, -1.0, np.nan]), known)},
    ]
    found = PersonalizationDraws("routing", arms, np.arange(2), ("a", "b", "c", "d"), HEALTH, ("x", "y"))
    summary = summarise(found, 0)
    routing = summary.arms["routing"]
    assert (routing.n, routing.n_missing) == (7, 1)
    assert routing.spread("delta") == pytest.approx((0.5, np.std([0.0, 1.0], ddof=1)))
    assert routing.spread("wl") == (2.0, 0.0)
    columns = results_columns(found, summary, 0)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    ties = [row["value"] for row in rows if row["metric"] == "ties"]
    assert ties == [1.0, 0.0]
    hits = next(row for row in rows if row["draw"] is None and row["metric"] == "accuracy")
    assert hits["low"] <= hits["value"] == 7 / 8 <= hits["high"]
    over = next(row for row in rows if row["draw"] is None and row["metric"] == "delta")
    assert (over["n"], over["n_missing"]) == (7, 1)


def test_a_missing_reward_is_no_number_in_the_users_table():
    known = np.array([True, False])
    arms = [{"routing": arm(np.array([1.0, np.nan]), known)}]
    found = PersonalizationDraws("routing", arms, np.zeros(1, dtype=int), ("a", "b"), HEALTH, ("x", "y"))
    columns = users_columns(found)
    assert columns["reward"] == [6.0, None]
    assert columns["neutral"] == [5.0, None]
    assert columns["user"] == ["a", "b"]


def test_no_losses_are_shown_as_they_are():
    arms = [{"routing": arm(np.ones(5))} for _ in range(2)]
    found = PersonalizationDraws("routing", arms, np.arange(2), tuple("abcde"), HEALTH, ("x",))
    mean, deviation = summarise(found, 0).arms["routing"].spread("wl")
    assert mean == np.inf
    assert np.isnan(deviation)
