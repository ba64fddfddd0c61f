"""Retrieval in the simulated world."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from small_world import build_evaluation, small_study

from apm_lab.data.store import Store
from apm_lab.errors import DataError
from apm_lab.language.hashed_encoder import HashedEncoder
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.language.simulated.style_reading import example_pairs
from apm_lab.language.simulated.summariser import SimulatedSummariser, _wording
from apm_lab.language.stored_vectors import StoredVectors
from apm_lab.maths.inference import control_check
from apm_lab.methods.rag_exemplar import RagExemplar
from apm_lab.methods.rag_summary import RagSummary
from apm_lab.studies.leakage import leaks

DRAWS = 4


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    method = RagExemplar(HashedEncoder())
    study = small_study(
        *[tmp_path_factory.mktemp("rag")],
        method=method,
        name="rag_exemplar",
        size=4,
        train=160,
        test=120,
        validation=0,
        draws=DRAWS,
    )
    return build_evaluation(study)


class Told:
    """Gives every prompt the vector that a table has for it."""

    engine, identity = "simulated", "told@1"

    def __init__(self, evaluation, vector):
        self.vectors = {}
        for side in (evaluation.train, evaluation.test):
            for history, attributes in zip(side.histories, side.users.attributes, strict=True):
                # all its prompts, and the summary of how they are written
                self.vectors |= dict.fromkeys((*history, _wording(history)), vector(attributes))

    def embed(self, texts):
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def differences(evaluation, method):
    """Return reward(response) - reward(neutral) of the test users (D, U)."""
    answered = dataclasses.replace(evaluation, method=method)
    return np.stack([answered.evaluate(draw)["rag_exemplar"].difference for draw in range(DRAWS)])


class Noted(SimulatedSummariser):
    """Notes what it is asked."""

    def __init__(self):
        self.calls = []

    def generate(self, calls):
        self.calls += calls
        return super().generate(calls)


@pytest.fixture
def summarised(tmp_path):
    """Makes the method with summaries, on a store of its own."""

    def make(encoder, model=None, counts=None, **values):
        texts = StoredTexts(model or SimulatedSummariser(), Store(tmp_path / "own").texts, counts or CallCounts())
        return RagSummary(encoder, texts, **values)

    return make


@pytest.mark.parametrize("name", ["rag_exemplar", "rag_summary"])
def test_random_users_give_zero_and_users_with_the_same_attribute_do_not(evaluation, summarised, name):
    make = RagExemplar if name == "rag_exemplar" else summarised
    rng = np.random.default_rng(0)
    at_random = Told(evaluation, lambda attributes: rng.standard_normal(16))
    found = differences(evaluation, make(at_random))
    known = np.ones(found.shape, dtype=bool)
    assert control_check(found, known, np.arange(DRAWS)).passed
    equal = Told(evaluation, lambda attributes: attributes)
    gained = differences(evaluation, make(equal))
    assert not control_check(gained, known, np.arange(DRAWS)).passed
    assert gained.mean() > 1.0
    assert gained.mean(axis=1).min() > 0.5


def responses(evaluation, method, draw=0):
    method.fit(evaluation.train_view(draw, evaluation.train, "rag"))
    return [response.text for response in method.respond(evaluation.test_view(draw))]


def test_a_fit_leaves_nothing_behind_and_is_the_same_each_time(evaluation):
    method = RagExemplar(HashedEncoder())
    first, other = responses(evaluation, method, 0), responses(evaluation, method, 1)
    assert responses(evaluation, method, 0) == first == responses(evaluation, RagExemplar(HashedEncoder()), 0)
    assert sum(one != two for one, two in zip(first, other, strict=True)) > 60


def test_vectors_come_from_the_store_at_the_second_draw(evaluation, tmp_path):
    counts = CallCounts()
    method = RagExemplar(StoredVectors(HashedEncoder(), Store(tmp_path / "store").vectors, counts))
    texts = responses(evaluation, method, 0)
    made = counts.made
    responses(evaluation, method, 1)
    assert 0 < counts.made == made
    assert texts == responses(evaluation, RagExemplar(HashedEncoder()), 0)


def test_texts_stand_in_the_context_nearest_first(evaluation, monkeypatch):
    method, view = RagExemplar(HashedEncoder(), neighbours=2), evaluation.test_view(0)
    method.fit(evaluation.train_view(0, evaluation.train, "rag"))
    seen = []
    monkeypatch.setattr(
        type(view.responses), "generate_guided", lambda self, wanted: seen.extend(wanted) or ["x"] * len(wanted)
    )
    assert [response.text for response in method.respond(view)] == ["x"] * 120
    user, turn, context = seen[7]
    assert (user, turn) == (7, 0)
    embed = HashedEncoder().embed

    def vector(history):
        rows = embed(history)
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).sum(axis=0)

    rows = np.array([vector(history) for history in evaluation.train.histories])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for near in np.argsort(-(rows @ vector(view.histories[7])), kind="stable")[:2]:
        for prompt in evaluation.train.histories[near]:
            place = context.find(f"<prompt>\n{prompt}\n</prompt>")
            assert place > 0
            context = context[place + 1 :]
    assert "<prompt>" not in context


def test_one_neighbour_a_small_budget_and_too_many_neighbours(evaluation):
    one = RagExemplar(HashedEncoder(), neighbours=1)
    responses(evaluation, one)
    assert one.counts["truncated"] == 0
    # an example is about 600 tokens at four characters each: six do not fit into 1500
    tight = RagExemplar(HashedEncoder(), context_tokens=1500)
    assert None not in responses(evaluation, tight)
    assert 120 < tight.counts["truncated"] < 6 * 120
    nothing = RagExemplar(HashedEncoder(), context_tokens=10)
    assert responses(evaluation, nothing) == [None] * 120  # the neutral response
    assert nothing.counts["truncated"] == sum(len(pairs) for pairs in _contexts(evaluation))
    with pytest.raises(DataError, match=r"method\.neighbours=161: \d+ training users"):
        responses(evaluation, RagExemplar(HashedEncoder(), neighbours=161))


def _contexts(evaluation):
    from apm_lab.language.history_embedding import history_embeddings
    from apm_lab.methods.preference_pairs import preference_pairs
    from apm_lab.methods.retrieval import nearest_users, pairs_by_user

    view = evaluation.train_view(0, evaluation.train, "rag")
    pairs = pairs_by_user(preference_pairs(view.ratings, view.known)[0], 3)
    rows, queries = (
        history_embeddings(HashedEncoder(), side.histories) for side in (evaluation.train, evaluation.test)
    )
    near = nearest_users(queries, rows, list(pairs), 3)
    return [[pair for user in users for pair in pairs[user]] for users in near]


def test_only_retrieved_users_preferences_are_asked_for_and_each_once(evaluation, summarised):
    model, counts = Noted(), CallCounts()
    method = summarised(HashedEncoder(), model, counts, neighbours=1)
    texts = responses(evaluation, method, 0)
    styles = [call for call in model.calls if not example_pairs(call.messages[-1].content)]
    preferences = [call for call in model.calls if example_pairs(call.messages[-1].content)]
    assert len(styles) == 160 + 120
    assert {call.sample for call in styles} == {*evaluation.train.users.numbers, *evaluation.test.users.numbers}
    assert 20 < len(preferences) < 120
    asked = [call.sample for call in preferences]
    assert len(set(asked)) == len(asked)
    assert set(asked) <= set(evaluation.train.users.numbers)
    made = counts.made
    assert responses(evaluation, method, 0) == texts
    assert counts.made == made == len(model.calls)


def test_summaries_have_a_budget_too(evaluation, summarised):
    # a summary is about 20 tokens at four characters each, the introduction about 60
    tight, nothing = (summarised(HashedEncoder(), context_tokens=most) for most in (90, 30))
    assert None not in responses(evaluation, tight)
    assert 40 < tight.counts["truncated"] < 3 * 120
    assert responses(evaluation, nothing) == [None] * 120
    assert nothing.counts["truncated"] == 3 * 120


def test_no_leak(evaluation, summarised):
    assert leaks(evaluation, "rag_exemplar", RagExemplar(HashedEncoder())) == []
    assert leaks(evaluation, "rag_summary", summarised(HashedEncoder())) == []
