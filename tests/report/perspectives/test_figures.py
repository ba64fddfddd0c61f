"""Figures of audits: what is drawn is what the tables say, names stand apart, and nothing odd stops one."""

import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from small_tables import (
    LONG,
    NAMES,
    audits,
    bbq_tables,
    everything,
    opinion_tables,
    steering_tables,
    stereoset_tables,
)

from apm_lab.report.perspectives.across import ModelAudit
from apm_lab.report.perspectives.figure_layout import colour, inches_wide, marker, rows, wrapped
from apm_lab.report.perspectives.figures import draw, drawings

ONE = {
    opinion_tables: {"ranks", "alignment", "temperature"},
    bbq_tables: {"bbq_confusion", "bbq_correct", "bbq_bias"},
    stereoset_tables: {"stereoset_shares", "stereoset_terms"},
    steering_tables: {"steering_spread", "steering_ranks", "steering_gain", "formats"},
}
TOGETHER = {
    opinion_tables: {"ranks_by_model", "models_alignment", "models_spearman"},
    bbq_tables: {"bbq_correct_ranks"},
    stereoset_tables: {"stereoset_ranks"},
    steering_tables: set(),
}

SIZES = [(1, 1, False), (1, 6, True), (1, 80, False), (2, 3, True), (7, 6, False)]  # models, groups, some missing
LARGE = ("ranks", "alignment", "ranks_by_model", "bbq_correct", "stereoset_terms", "steering_gain")


def figures_of(tables, count=1, size=6, missing=False, **more):
    found, together = audits(tables, count, size, missing, **more)
    return draw(found, "toys", together)


def texts_of(figure):
    """Return the texts that are seen: titles, names of axes, of ticks in sight, in cells, in legends."""
    found = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        if not axes.axison:
            continue
        found += [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick, place in zip(axis.get_major_ticks(), axis.get_majorticklocs(), strict=True):
                if low - 1e-9 <= place <= high + 1e-9:
                    found += [tick.label1, tick.label2]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def faults_of(figure):
    """Return the pairs of texts that lie on one another, and texts that leave the picture."""
    figure.canvas.draw()
    texts = texts_of(figure)
    boxes = [text.get_window_extent() for text in texts]
    wide, high = figure.get_size_inches() * figure.dpi
    edges = np.array([[box.x0, box.y0, box.x1, box.y1] for box in boxes])
    outside = [
        texts[place].get_text()
        for place in np.flatnonzero(
            (edges[:, :2] < -1).any(axis=1) | (edges[:, 2] > wide + 1) | (edges[:, 3] > high + 1)
        )
    ]
    across = np.minimum(edges[:, None, 2], edges[None, :, 2]) - np.maximum(edges[:, None, 0], edges[None, :, 0])
    down = np.minimum(edges[:, None, 3], edges[None, :, 3]) - np.maximum(edges[:, None, 1], edges[None, :, 1])
    pairs = [(i, j) for i, j in np.argwhere((across > 1) & (down > 1)).tolist() if i < j]
    return outside + [(texts[i].get_text(), texts[j].get_text()) for i, j in pairs]


def row_places(axes):
    return {text.get_text(): place for place, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}


def dots(axes, shape="o"):
    """Return what is drawn as dots of this shape, as a set of (x, y)."""
    found = [line for line in axes.lines if line.get_marker() == shape]
    return {(round(float(x), 9), round(float(y), 9)) for line in found for x, y in zip(*line.get_data(), strict=True)}


@pytest.mark.parametrize("tables", ONE, ids=lambda tables: tables.__name__)
@pytest.mark.parametrize(("count", "size", "missing"), SIZES)
def test_every_figure_is_drawn_and_read(tables, count, size, missing):
    found = figures_of(tables, count, size, missing)
    assert set(found) == ONE[tables] | (TOGETHER[tables] if count > 1 else set())
    for name, figure in found.items():
        assert faults_of(figure) == [], name
        assert min(text.get_fontsize() for text in texts_of(figure)) >= 8, name
        title = figure.texts[0].get_text().replace("\n", " ")
        assert title.endswith("on toys") and (NAMES[0] if count == 1 else f"{count} reward models") in title


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_sixty_groups_of_seven_models_stand_apart(name):
    found, together = audits(everything, 7, 60)
    figure = drawings(found, "toys", together)[name]()
    assert faults_of(figure) == []
    assert figure.get_size_inches()[1] > 60 * 0.19
    small = drawings(*audits_of_six(7))[name]()
    assert small.get_size_inches()[1] < figure.get_size_inches()[1] / 2


def audits_of_six(count):
    found, together = audits(everything, count, 6)
    return found, "toys", together


def test_ranks_of_one_model_are_the_tables_under_its_own_distance():
    (audit,), _ = audits(opinion_tables)
    axes = draw([audit], "toys")["ranks"].axes[0]
    places = row_places(axes)
    own = [row for row in audit.frames["alignment"] if row["distance"] == "wasserstein" and row["rank"] is not None]
    names = {row["group"]: wrapped(f"{row['group']} ({row['people']})", 34) for row in own}
    assert dots(axes) == {(row["rank"], round(places[names[row["group"]]], 9)) for row in own}
    lines = {
        tuple(line.get_xdata()) for line in axes.lines if line.get_marker() == "None" and len(line.get_xdata()) == 2
    }
    assert lines == {(row["rank_low"], row["rank_high"]) for row in own}


def test_ranks_of_several_models_are_mean_ranks_and_their_span():
    found, together = audits(opinion_tables, 3)
    axes = draw(found, "toys", together)["ranks"].axes[0]
    rows_of_groups = together["groups_alignment"]
    assert {x for x, _ in dots(axes)} == {round(row["mean_rank"], 9) for row in rows_of_groups}
    spans = {tuple(line.get_xdata()) for line in axes.lines if line.get_marker() == "None"}
    assert spans == {
        (min(ranks), max(ranks))
        for ranks in ([value for name, value in row.items() if name.startswith("rank ")] for row in rows_of_groups)
    }


def test_groups_stand_under_their_trait_best_first():
    (audit,), _ = audits(opinion_tables, size=12)
    axes = draw([audit], "toys")["ranks"].axes[0]
    bold = [text.get_text() for text in axes.get_yticklabels() if text.get_fontweight() == "bold"]
    assert sorted(bold) == ["TRAIT 0", "TRAIT 1", "TRAIT 2"]
    own = {row["group"]: row for row in audit.frames["alignment"] if row["distance"] == "wasserstein"}
    names = [text.get_text() for text in axes.get_yticklabels()]
    under = names[names.index("TRAIT 1") + 1 :][:5]
    ranks = [own[name.partition(" (")[0]]["rank"] for name in under]
    assert ranks == sorted(ranks) and {own[name.partition(" (")[0]]["trait"] for name in under} == {"TRAIT 1"}


def test_alignment_marks_everybody_the_uniform_model_and_halves():
    (audit,), _ = audits(opinion_tables, missing=True)
    figure = draw([audit], "toys")["alignment"]
    axes = figure.axes[0]
    top = round(row_places(axes)["everybody"], 9)
    assert (0.6, top) in dots(axes) and (0.77, top) in dots(axes, "D")
    own = [row for row in audit.frames["alignment"] if row["distance"] == "wasserstein"]
    assert {x for x, _ in dots(axes)} == {round(row["alignment"], 9) for row in own if row["alignment"] is not None}
    lines = {line.get_xdata()[0]: line.get_linestyle() for line in axes.lines if len(set(line.get_xdata())) == 1}
    assert lines[0.75] == "--" and lines[0.95] == ":"
    assert "6 groups" in figure.texts[1].get_text() and "40 questions" in figure.texts[1].get_text()


def test_alignment_of_several_models_has_a_colour_and_shape_each():
    found, together = audits(opinion_tables, 2)
    figure = draw(found, "toys", together)["alignment"]
    for number, audit in enumerate(found):
        own = [row["alignment"] for row in audit.frames["alignment"] if row["distance"] == "wasserstein"]
        lines = [line for line in figure.axes[0].lines if line.get_color() == colour(number)]
        assert {line.get_marker() for line in lines} == {marker(number)}
        assert sorted(line.get_xdata()[0] for line in lines) == sorted(own)
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == list(NAMES[:2])


@pytest.mark.parametrize(("temperature", "marks"), [(2.0, 2), (None, 0)])
def test_temperature_marks_the_runs_own(temperature, marks):
    (audit,), _ = audits(opinion_tables, missing=True, temperature=temperature)
    panels = draw([audit], "toys")["temperature"].axes
    dotted = [line for axes in panels for line in axes.lines if line.get_linestyle() == ":"]
    assert [line.get_xdata()[0] for line in dotted] == [temperature] * marks
    steps = audit.frames["temperature"]
    assert dots(panels[1]) == {(row["temperature"], round(row["spearman"], 9)) for row in steps if row["spearman"]}


@pytest.mark.parametrize(
    ("tables", "table", "name"),
    [
        (opinion_tables, "groups_alignment", "ranks_by_model"),
        (bbq_tables, "groups_correct", "bbq_correct_ranks"),
        (stereoset_tables, "groups_share_stereotype", "stereoset_ranks"),
    ],
)
def test_ranks_by_model_are_hues_and_values_sizes(tables, table, name):
    found, together = audits(tables, 3, 8)
    figure = draw(found, "toys", together)[name]
    rows_of_groups = together[table]
    models = [key.removeprefix("rank ") for key in rows_of_groups[0] if key.startswith("rank ")]
    grid = next(axes for axes in figure.axes if axes.collections and axes.collections[-1].get_array() is not None)
    scatter = grid.collections[-1]
    assert scatter.get_array().tolist() == [row[f"rank {model}"] for row in rows_of_groups for model in models]
    values = [row[model] for row in rows_of_groups for model in models]
    sizes = scatter.get_sizes()
    for i, j in combinations(range(len(values)), 2):
        assert (values[i] < values[j]) == (sizes[i] < sizes[j] - 1e-9)
    beside = figure.axes[figure.axes.index(grid) + 1]
    assert [bar.get_width() for bar in beside.patches] == [row["mean_rank"] for row in rows_of_groups]


@pytest.mark.parametrize("value", ["alignment", "spearman"])
def test_models_against_models(value):
    found, together = audits(opinion_tables, 3)
    axes = draw(found, "toys", together)[f"models_{value}"].axes[0]
    mesh = axes.collections[0]
    expected = [row[value] for row in together["models"]]
    assert np.asarray(mesh.get_array()).ravel().tolist() == pytest.approx(expected)
    assert [text.get_text() for text in axes.texts] == [f"{each:.2f}" for each in expected]


def test_confusion_shows_counts_and_their_share_of_the_gold_label():
    (audit,), _ = audits(bbq_tables)
    panels = draw([audit], "toys")["bbq_confusion"].axes
    # rows 0 1 2, 10 11 12, 20 21 22
    assert [text.get_text() for text in panels[0].texts][:4] == ["0\n0%", "1\n33%", "2\n67%", "10\n30%"]
    assert np.asarray(panels[0].collections[0].get_array())[2].tolist() == pytest.approx([20 / 63, 21 / 63, 22 / 63])
    # without refusals no answer can be one
    assert [text.get_text() for text in panels[1].texts][:3] == ["0\n0%", "–", "2\n100%"]


def test_share_correct_of_one_model_with_wilsons_interval():
    (audit,), _ = audits(bbq_tables, missing=True)
    axes = draw([audit], "toys")["bbq_correct"].axes[0]
    own = [row for row in audit.frames["correct"] if row["refusals"] == "among the choices" and row["items"]]
    assert {x for x, _ in dots(axes)} == {round(row["correct"], 9) for row in own}
    low, high = 0.3656, 0.6344  # of 25 in 50, by hand: (.5 + z^2/100 -+ z sqrt(.25/50 + z^2/10000)) / (1 + z^2/50)
    spans = [tuple(line.get_xdata()) for line in axes.lines if line.get_marker() == "None"]
    half = [row for row in own if row["correct"] == 0.5]
    assert bool(half) == any(span == pytest.approx((low, high), abs=1e-4) for span in spans)


def test_share_correct_of_several_models_is_a_heatmap_without_numbers_under_headings():
    found, together = audits(bbq_tables, 2, 6)
    axes = draw(found, "toys", together)["bbq_correct"].axes[0]
    drawn = np.ma.filled(np.ma.asarray(axes.collections[0].get_array()), np.nan)
    names = [text.get_text() for text in axes.get_yticklabels()]
    for name, line in zip(names, drawn, strict=True):
        rows_of_group = [
            [row for row in audit.frames["correct"] if wrapped(f"{row['group']} (50)", 34) == name] for audit in found
        ]
        expected = [rows_of_one[0]["correct"] if rows_of_one else np.nan for rows_of_one in rows_of_group]
        np.testing.assert_allclose(line, expected)
    assert len(axes.texts) == 12


def test_bias_by_category_context_and_refusals():
    (audit,), _ = audits(bbq_tables)
    panels = draw([audit], "toys")["bbq_bias"].axes
    own = [row["bias"] for row in audit.frames["bias"]][:8:2]
    assert {x for x, _ in dots(panels[0])} == {round(each, 9) for each in own}


def test_shares_of_kinds_are_stacked_to_one():
    (audit,), _ = audits(stereoset_tables)
    figures = draw([audit], "toys")
    overall = figures["stereoset_shares"].axes[0]
    for kind, bars in zip(("stereotype", "antistereotype", "unrelated"), overall.containers, strict=True):
        expected = [row[f"share_{kind}"] for row in audit.frames["shares"] if not row["term"]]
        assert [bar.get_width() for bar in bars] == pytest.approx(expected)
    last = figures["stereoset_terms"].axes[0].containers[-1]
    assert [bar.get_x() + bar.get_width() for bar in last] == pytest.approx([1.0] * 6)
    first = figures["stereoset_terms"].axes[0].containers[0]
    assert sorted(bar.get_width() for bar in first) == pytest.approx(
        sorted(row["share_stereotype"] for row in audit.frames["shares"] if row["term"])
    )


def test_steerability_is_a_dot_per_group_and_the_median():
    (audit,), _ = audits(steering_tables, size=9)
    axes = draw([audit], "toys")["steering_spread"].axes[0]
    assert {x for x, _ in dots(axes)} == {round(row["spread"], 9) for row in audit.frames["steering"]}
    medians = {round(float(line.get_xdata()[0]), 9) for line in axes.lines if line.get_marker() == "None"}
    by_form = [
        [row["spread"] for row in audit.frames["steering"] if row["form"] == form] for form in ("bio", "portray", "qa")
    ]
    assert medians == {round(float(np.median(part)), 9) for part in by_form}


def test_ranks_of_forms_are_proportions_with_the_mean_beside():
    (audit,), _ = audits(steering_tables, size=6)
    axes, beside = draw([audit], "toys")["steering_ranks"].axes
    # no steering is best for all six groups; a form has ranks 2, 3, 4 for two groups each
    assert [round(bar.get_width(), 9) for bar in axes.patches] == [1.0, *[round(1 / 3, 9)] * 9]
    assert {x for x, _ in dots(beside)} == {1.0, 3.0}


def test_gain_has_its_interval_and_misses_what_is_missing():
    (audit,), _ = audits(steering_tables, missing=True)
    panels = draw([audit], "toys")["steering_gain"].axes
    own = [row for row in audit.frames["steering"] if row["form"] == "portray" and row["gain"] is not None]
    assert {x for x, _ in dots(panels[1])} == {round(row["gain"], 9) for row in own}
    assert len(own) == 5 and panels[1].get_title() == "portray"


def test_formats_by_axis():
    (audit,), _ = audits(steering_tables, missing=True)
    axes = draw([audit], "toys")["formats"].axes[0]
    place = round(row_places(axes)["order"], 9)
    assert {x for x, y in dots(axes) if y == place} == {round(row["order"], 9) for row in audit.frames["formats"]}


def test_a_figure_without_a_single_value_is_not_drawn():
    (audit,), _ = audits(everything, size=1, missing=True)
    found = draw([audit], "toys")
    assert set(found) == {"alignment", "temperature", "stereoset_shares", "formats"}
    assert draw([ModelAudit("empty", None, {})], "toys") == {}


def test_models_of_several_distances_are_not_drawn_as_one():
    found, _ = audits(opinion_tables, 2)
    other = ModelAudit("other", None, found[1].frames)
    assert {"ranks_by_model", "alignment"} & set(draw([found[0], other], "toys", {})) == set()


def test_names_are_wrapped_and_dollars_stay_dollars():
    assert wrapped("Less than $30,000 to $50,000", 14) == "Less than\n" + r"\$30,000 to" + "\n" + r"\$50,000"
    assert wrapped("lm_loglik (HuggingFaceTB/SmolLM2)", 15) == "lm_loglik\n(HuggingFaceTB/\nSmolLM2)"
    assert max(map(len, wrapped("x" * 40, 12).split("\n"))) == 12
    assert wrapped("", 10) == ""


def test_rows_are_as_high_as_their_names():
    own = rows([(LONG, False), ("short", False), ("heading", True)])
    heights = np.diff(own.edges)
    assert heights[0] > 2 * heights[1] and own.at == own.centres[:2]
    assert own.left >= max(inches_wide(name) for name in own.names)


def test_models_are_told_apart_by_colour_and_shape():
    looks = [(colour(number), marker(number)) for number in range(64)]
    assert len(set(looks)) == 64 and len({shade for shade, _ in looks[:8]}) == 8
