"""Methods side by side: figures and paired tests by hand, the paper's order, and what a void run is worth."""

import io

import numpy as np
import pytest
from rich.console import Console

from apm_lab.report.comparison import UNADJUSTED, MethodRun, side_by_side, side_by_side_columns
from apm_lab.report.comparison_table import print_side_by_side
from apm_lab.studies.arms import ArmDraw


def draw(difference, known=None, styled=True):
    difference = np.array(difference, dtype=np.float64)
    known = np.ones(len(difference), dtype=bool) if known is None else np.array(known)
    marks, none = np.full(len(difference), styled), np.array(0)
    column = np.zeros(len(difference), dtype=np.int64)
    return ArmDraw(column, difference, known, 5 + difference, np.full(len(known), 5.0), marks, marks, none, none)


def many(mean, draws=6, users=100, seed=0):
    rng = np.random.default_rng(seed)
    return [draw(rng.normal(mean, 1, users)) for _ in range(draws)]


def printed(table, width=140):
    console = Console(file=io.StringIO(), width=width)
    print_side_by_side(console, "title", table)
    return console.file.getvalue()


def test_figures_and_the_paired_difference_by_hand():
    """Two draws of four users; the third user of the second draw is not known to B."""
    a = MethodRun("a", [draw([1, 1, -2, 0]), draw([3, 1, -1, 1])])
    b = MethodRun("b", [draw([2, 1, 0, 1]), draw([4, 1, np.nan, 2], [True, True, False, True])])
    table = side_by_side([a, b], np.arange(2), 0)
    assert list(table.arms) == ["a", "b"]
    assert table.arms["a"].spread("delta") == pytest.approx((0.5, np.std([0, 1], ddof=1)))
    assert table.arms["a"].spread("wl")[0] == pytest.approx((2 / 1 + 3 / 1) / 2)
    assert (table.arms["b"].n, table.arms["b"].n_missing) == (7, 1)
    (found,) = table.pairs.values()
    # b less a: 1 0 2 1 in the first draw, 1 0 - 1 in the second
    assert found.interval.estimate == pytest.approx((4 / 4 + 2 / 3) / 2)
    assert list(table.pairs) == [("b", "a")]


def test_methods_stand_in_the_order_of_the_papers_table():
    means = {"routing": 1.0, "routing_oracle": 0.1, "rag": 0.4, "nonpersonalized": 3.0}
    runs = [MethodRun(name, many(mean, seed=place)) for place, (name, mean) in enumerate(means.items())]
    table = side_by_side(runs, np.arange(6), 0)
    assert list(table.arms) == ["nonpersonalized", "rag", "routing", "routing_oracle"]
    assert len(table.pairs) == 6
    assert ("routing", "rag") in table.pairs
    assert ("routing_oracle", "nonpersonalized") in table.pairs
    assert table.pairs[("routing", "rag")].sign_flip.p == pytest.approx(2 / 64)
    text = printed(table)
    assert "routing - rag: Delta +0.6" in text
    assert ", significant; sign flips p = 0.031 (given these users)" in text
    assert UNADJUSTED in text


def test_nothing_of_a_void_run_is_significant():
    runs = [MethodRun("a", many(0)), MethodRun("b", many(1, seed=1), void=True), MethodRun("c", many(2, seed=2))]
    table = side_by_side(runs, np.arange(6), 0)
    assert {pair: table.significant(pair) for pair in table.pairs} == {
        ("b", "a"): False,
        ("c", "a"): True,
        ("c", "b"): False,
    }
    text = printed(table)
    assert text.count("VOID RUN") == 1
    assert "VOID: a control arm is not zero and nothing counts in the run of b\n" in text.replace(" \n", "\n")
    assert text.count(", significant;") == 1
    columns = side_by_side_columns(table, group=3)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    assert {row["void"] for row in rows if "b" in (row["method"], row["other"])} == {True}
    assert {row["void"] for row in rows if "b" not in (row["method"], row["other"])} == {False}
    assert [row["significant"] for row in rows if row["other"]] == [False, True, False]
    assert {row["group"] for row in rows} == {3}


def test_an_unhealthy_judge_is_told():
    table = side_by_side([MethodRun("a", many(0), unhealthy=True), MethodRun("b", many(1))], np.arange(6), 0)
    assert "JUDGE UNHEALTHY: it failed its health check and was used all the same in the run of a" in printed(table)


def test_one_draw_decides_nothing_and_too_few_have_no_sign_flips():
    one = side_by_side([MethodRun("a", many(0, draws=1)), MethodRun("b", many(2, draws=1))], np.zeros(1, int), 0)
    assert "for this draw alone, which decides nothing" in printed(one)
    few = side_by_side([MethodRun("a", many(0, draws=3)), MethodRun("b", many(2, 3, seed=1))], np.arange(3), 0)
    assert "significant; sign flips: too few draws" in printed(few)


def test_accuracy_stands_where_there_is_one():
    plain = MethodRun("a", [draw([1, 2], styled=False), draw([1, 0], styled=False)])
    table = side_by_side([plain, MethodRun("b", many(1, draws=2, users=2))], np.arange(2), 0)
    columns = side_by_side_columns(table)
    rows = zip(*(columns[key] for key in ("method", "other", "metric")), strict=True)
    found = {(name, other) for name, other, metric in rows if metric == "accuracy"}
    assert found == {("b", None)}


def test_a_narrow_terminal_says_what_it_leaves_out():
    text = printed(side_by_side([MethodRun("a", many(0)), MethodRun("b", many(1))], np.arange(6), 0), width=90)
    assert "left out for want of width" in text
