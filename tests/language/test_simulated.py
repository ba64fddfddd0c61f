"""The simulated world: who knows what, and what can be read."""

import ast
import random
import re
import unicodedata
from importlib.resources import files
from math import log

import numpy as np
import pytest
import yaml

from apm_lab.data.pool import PRINCIPLES, Pool, slug, styled_messages
from apm_lab.data.prompts import read_prompts
from apm_lab.errors import ConfigError
from apm_lab.experiment.config_folder import config_folder
from apm_lab.language.protocols import GenerationCall, Question
from apm_lab.language.simulated.constants import constant, load_yaml
from apm_lab.language.simulated.judge import SimulatedJudge, marker_weights, read_styles
from apm_lab.language.simulated.reader import BayesReader
from apm_lab.language.simulated.responder import SimulatedResponder, base_levels, understood_instruction
from apm_lab.language.simulated.rewriter import SimulatedRewriter
from apm_lab.language.simulated.wordings import ATTRIBUTES, catalogue, rates
from apm_lab.records import Message, Style

FOLDER = files("apm_lab.language.simulated")
PROMPTS = [prompt.text for prompt in read_prompts()[0]]
ORDER = list(load_yaml("lexicon.yaml"))
PARTS = {
    "judge": {"judge"},
    "responder": {"responder"},
    "rewriter": {"rewriter", "wordings"},
}


def answer(model, prompt, style=None, sample=1):
    return model.generate([GenerationCall(styled_messages(PRINCIPLES, "system", prompt, style), sample)])[0]


def reading(text, principle):
    return read_styles(text)[ORDER.index(slug(PRINCIPLES[principle]))]


@pytest.mark.parametrize("part", PARTS)
def test_rewriter_responder_and_judge_import_nothing_from_each_other(part):
    reached, queue = set(), [part]
    while queue:
        name = queue.pop()
        reached.add(name)
        for node in ast.walk(ast.parse(FOLDER.joinpath(f"{name}.py").read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.startswith("apm_lab.language.simulated."):
                following = module.rpartition(".")[2]
                queue += [following] if following not in reached else []
    assert reached <= PARTS[part] | {"constants"}


def test_each_reads_its_own_words_only():
    read = {
        name: set(re.findall(r'load_yaml\("(\w+\.yaml)"\)', FOLDER.joinpath(f"{name}.py").read_text()))
        for name in ("judge", "responder", "rewriter", "wordings", "reader")
    }
    assert read == {
        "judge": {"lexicon.yaml"},
        "responder": {"phrases.yaml"},
        "rewriter": set(),
        "wordings": {"wordings.yaml"},
        "reader": set(),
    }


def test_no_word_list_is_shared():
    phrases = load_yaml("phrases.yaml")
    sentences = {text.lower().strip(".!?") for key in ORDER for side in phrases[key].values() for text in side}
    clauses = {clause.lower().strip(".!?") for wording in catalogue() for clause in wording.clauses}
    lexicon = load_yaml("lexicon.yaml")
    markers = {str(marker) for key in ORDER for side in lexicon[key].values() for marker in side}
    assert not sentences & clauses
    assert not sentences & markers
    assert not clauses & markers


@pytest.mark.parametrize(
    ("wording", "attribute", "sign", "kl", "ratio"),
    [
        ("nervous about", "anxious", 1, 2.40, 6341.9),
        ("could you", "open_ended", 1, 0.36, 2.3),
        ("list three", "open_ended", -1, 0.08, 114.8),
        ("imagine you", "hypothetical", 1, 1.74, 390.8),
    ],
)
def test_rates_are_read_off_table_9(wording, attribute, sign, kl, ratio):
    found = next(entry for entry in catalogue() if " ".join(entry.tokens) == wording)
    assert found.sides[ATTRIBUTES.index(attribute), sign] == pytest.approx(kl / log(ratio))
    if len(found.sides) == 1:
        assert found.rest == pytest.approx(kl / log(ratio) / ratio)


def test_a_bigram_listed_for_several_sides_is_one_wording():
    (could_you,) = [entry for entry in catalogue() if entry.tokens == ("could", "you")]
    # anxious, highly constrained (avoid), open-ended, prescriptive (avoid), transactional (avoid), unpolished (avoid)
    listed = [(1.13, 4.4), (0.13, 1.5), (0.36, 2.3), (0.27, 2.0), (0.35, 2.2), (0.06, 1.2)]
    assert could_you.rest == pytest.approx(np.mean([kl / log(ratio) / ratio for kl, ratio in listed]))
    assert len(could_you.sides) == 6


def test_all_rates_are_probabilities_and_tails_fall():
    assert max(rate for entry in catalogue() for rate in entry.sides.values()) == pytest.approx(
        1.13 / log(4.4), abs=1e-3
    )
    on_side, rest = 2.40 / log(6341.9), 2.40 / log(6341.9) / 6341.9
    tails = load_yaml("wordings.yaml")["anxious"]["follow"][0]["tail"]
    for share, tail in zip((0.7, 0.49), tails, strict=True):
        found = next(entry for entry in catalogue() if " ".join(entry.tokens) == tail["wording"])
        assert found.sides[6, 1] == pytest.approx(share * (on_side - rest))


def test_two_active_attributes_are_independent_reasons():
    place = next(i for i, entry in enumerate(catalogue()) if entry.tokens == ("could", "you"))
    wording = catalogue()[place]
    first, second = list(wording.sides)[:2]
    joint = rates((first, second))[place]
    p, q, r = wording.sides[first], wording.sides[second], wording.rest
    assert joint == pytest.approx(1 - (1 - p) * (1 - q) / (1 - r))


def test_the_neutral_prompt_stays_as_it_is():
    pool = Pool.chosen(10, None, None, "system")
    for user, prompt in enumerate(PROMPTS[:40], 1):
        attributes = [0] * 10
        attributes[user % 10] = 1
        (text,) = SimulatedRewriter().generate([GenerationCall(pool.rewriting_messages(attributes, prompt), user)])
        assert prompt in text


@pytest.mark.parametrize(("turns", "expected"), [(1, 0.43), (2, 0.57), (4, 0.71)])
def test_the_best_possible_reader(turns, expected):
    pool, users = Pool.chosen(10, None, None, "system"), 1500
    rng = np.random.default_rng(turns)
    classes = rng.integers(20, size=users)
    histories = []
    for user, number in enumerate(classes.tolist(), 1):
        attributes = [0] * 10
        attributes[number // 2] = 1 if number % 2 == 0 else -1
        chosen = rng.choice(len(PROMPTS), turns, replace=False)
        calls = [GenerationCall(pool.rewriting_messages(attributes, PROMPTS[i]), user) for i in chosen]
        histories.append(SimulatedRewriter().generate(calls))
    posterior = BayesReader(ATTRIBUTES, PROMPTS).posterior(histories)
    assert posterior.sum(axis=1) == pytest.approx(np.ones(users))
    accuracy = (posterior.argmax(axis=1) == classes).mean()
    assert abs(accuracy - expected) < 0.005 + 3 * np.sqrt(expected * (1 - expected) / users)


def test_unknown_attributes_and_principles_are_named():
    pool = Pool(("verbos",), ("casual",))
    with pytest.raises(ConfigError, match=r"verbos.*did you mean verbose"):
        SimulatedRewriter().generate([GenerationCall(pool.rewriting_messages([1], "Why?"), 1)])
    with pytest.raises(ConfigError, match=r"casul.*did you mean casual"):
        SimulatedJudge().score("text", [Question("casul", 1)], [b"0000"])


def test_compliance_moves_the_judged_style_and_its_absence_does_not():
    for compliance, low, high in ((1.0, 2.0, 9.0), (0.0, -0.7, 0.7)):
        model = SimulatedResponder("test", compliance, 0.5)
        gains = [
            style.direction
            * (reading(answer(model, prompt, style), style.principle) - reading(answer(model, prompt), style.principle))
            for prompt in PROMPTS[:40]
            for style in map(Style.of, range(20))
        ]
        assert low < np.mean(gains) < high


def test_an_instruction_is_understood_in_either_turn_and_nowhere_else():
    for placement in ("system", "user"):
        for index in range(20):
            style = Style.of(index)
            messages = styled_messages(PRINCIPLES, placement, "Why is the sea salty?", style)
            assert understood_instruction(messages) == (style.principle, style.direction)
    for prompt in (
        "Explain what casual clothing is.",
        "Write a gentle poem.\n\nIt should have three verses.",
        "Avoid the word uncertainty.\n\nWrite a definition.",
    ):
        assert understood_instruction((Message("user", prompt),)) is None


def test_the_level_is_nowhere_but_in_the_wording():
    model = SimulatedResponder("test", 0.5, 1.0)
    for prompt in PROMPTS[:60]:
        text = answer(model, prompt, Style(2, 1))
        assert text.isascii()
        assert text.isprintable()
        assert not re.search(r"[0-9a-f]{8}", text)
        assert answer(model, prompt, Style(2, 1)) == text
    assert base_levels("Why, oh why?") == base_levels("why oh WHY")


def test_neutral_levels_follow_table_8():
    model = SimulatedResponder("test", 0.5, 2.0)
    readings = np.array([read_styles(answer(model, prompt)) for prompt in PROMPTS[:300]])
    for name, base in constant("base").items():
        if name in ORDER:
            assert abs(readings[:, ORDER.index(name)].mean() - base["mean"]) < 1.2, name


def test_the_generator_in_the_config_is_the_one_in_the_table():
    preset = yaml.safe_load((config_folder() / "generator" / "simulated.yaml").read_text())
    table = constant("generator")
    assert (preset["compliance"], preset["noise"]) == (table["compliance"], table["noise"])


def test_a_preset_out_of_range_is_refused():
    with pytest.raises(ConfigError, match="compliance"):
        SimulatedResponder("test", 1.2, 1.0)


def weight(text, principle):
    return marker_weights(text)[ORDER.index(principle)]


def test_a_negation_turns_a_marker_round():
    assert weight("I recommend this.", "prescriptive") > 0
    assert weight("I do not recommend this.", "prescriptive") < 0


def test_the_longest_marker_uses_its_words_up():
    lexicon = load_yaml("lexicon.yaml")["acknowledges_uncertainty"]["follow"]
    long = next(marker for marker in lexicon if " " in marker and marker.split()[0] in lexicon)
    assert weight(long, "acknowledges_uncertainty") == pytest.approx(
        lexicon[long] + sum(lexicon.get(word, 0) for word in long.split()[len(long.split()) :])
    )


@pytest.mark.parametrize("text", ["", "?!", "\U0001f600 \u200b", "word " * 20_000, "\ufb01nally \u2014 d\u2019accord"])
def test_any_text_is_rated(text):
    questions = [Question(name, sign) for name in ORDER for sign in (1, -1)]
    ratings = SimulatedJudge().score(text, questions, [bytes([n] * 16) for n in range(len(questions))])
    assert all(rating == int(rating) and 1 <= rating <= 10 for rating in ratings)


def test_a_sampled_rating_has_the_reading_as_its_mean():
    text = answer(SimulatedResponder("test", 0.5, 1.0), PROMPTS[3])
    expected = SimulatedJudge("expected").score(text, [Question("casual", 1)], [b"0000"])[0]
    rng = random.Random(0)
    drawn = [SimulatedJudge().score(text, [Question("casual", 1)], [rng.randbytes(16)])[0] for _ in range(2000)]
    assert abs(np.mean(drawn) - expected) < 4 * 0.5 / np.sqrt(2000)


def test_a_rating_written_into_the_text_moves_nothing():
    text = answer(SimulatedResponder("test", 0.5, 1.0), PROMPTS[3])
    assert read_styles(f"{text} Rating: 10") == pytest.approx(read_styles(text), abs=0.05)


def perturbed(text, rng):
    sentences = re.split(r"(?<=[.!?])\s+", unicodedata.normalize("NFKC", text).lower())
    rng.shuffle(sentences)
    return " ".join(re.sub(r"[^\w\s]", "", sentence) for sentence in sentences)


def test_layout_moves_delta_by_less_than_15_percent():
    model, rng, gains = SimulatedResponder("test", 0.6, 2.4), random.Random(0), {"as is": [], "perturbed": []}
    for prompt in PROMPTS[:100]:
        neutral = answer(model, prompt)
        for style in map(Style.of, range(20)):
            styled = answer(model, prompt, style)
            for kind, change in (("as is", lambda text: text), ("perturbed", lambda text: perturbed(text, rng))):
                gain = reading(change(styled), style.principle) - reading(change(neutral), style.principle)
                gains[kind].append(style.direction * gain)
    original, changed = np.mean(gains["as is"]), np.mean(gains["perturbed"])
    assert original > 1
    assert abs(changed / original - 1) < 0.15
