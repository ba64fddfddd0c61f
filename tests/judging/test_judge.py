import numpy as np
import pytest

from apm_lab.data.store import Store
from apm_lab.errors import ConfigError
from apm_lab.judging import judge as judging
from apm_lab.judging.judge import Judge
from apm_lab.language.protocols import Answer, Usage
from apm_lab.language.recall import CallCounts
from apm_lab.language.simulated.judge import SimulatedJudge


def by_direction(text, question, key):
    return 8.0 if question.direction > 0 else 5.0


ONE_LIKES_ONE_DISLIKES = np.array([[[True, False], [False, True]]])  # (n=1, likes/dislikes, M=2)


@pytest.mark.parametrize(
    ("direction", "values", "asked"),
    [
        ("reflect", [[8, 0], [0, 8]], [("casual", 1), ("gentle", 1)]),
        ("dual", [[8, 0], [0, 11 - 5]], [("casual", 1), ("gentle", -1)]),
        ("both", [[7, 0], [0, 7]], [("casual", 1), ("gentle", 1), ("casual", -1), ("gentle", -1)]),
    ],
)
def test_directions_by_hand(judge_of, direction, values, asked):
    judge, stub = judge_of(by_direction, direction)
    scores, known = judge.score(["a text"], ONE_LIKES_ONE_DISLIKES)
    np.testing.assert_array_equal(scores[0], values)
    np.testing.assert_array_equal(known, ONE_LIKES_ONE_DISLIKES)
    assert [(question.principle, question.direction) for _, question in stub.asked] == asked


def test_only_what_is_needed_is_asked_and_only_once(judge_of):
    counts = CallCounts()
    judge, stub = judge_of(by_direction, counts=counts)
    needed = np.zeros((2, 2, 2), dtype=bool)
    needed[0, 0, 0] = True
    judge.score(["a", "b"], needed)
    needed[1, 1, 1] = True
    judge.score(["a", "b"], needed)
    assert [text for text, _ in stub.asked] == ["a", "b"]
    assert (counts.asked, counts.made) == (3, 2)


def test_equal_texts_are_asked_once(judge_of):
    judge, stub = judge_of(by_direction)
    scores, _ = judge.score(["same", "same"], np.ones((2, 2, 2), dtype=bool))
    assert len(stub.asked) == 2
    assert (scores == 8).all()


def test_an_unreadable_answer_is_asked_again_with_new_seeds_and_then_stays_missing(judge_of):
    keys = []

    def never(text, question, key):
        keys.append(key)

    judge, _ = judge_of(never, principles=("casual",), retries=2)
    scores, known = judge.score(["a"], np.array([[[True], [False]]]))
    assert not known.any()
    assert scores.sum() == 0
    assert len(set(keys)) == len(keys) == 3

    answers = iter([None, 4.0])
    judge, _ = judge_of(lambda *_: next(answers), principles=("casual",))
    scores, known = judge.score(["b"], np.array([[[True], [False]]]))
    assert (scores[0, 0, 0], known[0, 0, 0]) == (4.0, True)


def test_under_both_a_half_answer_is_missing(judge_of):
    judge, _ = judge_of(lambda text, question, key: 6.0 if question.direction > 0 else None, "both")
    assert not judge.score(["a"], ONE_LIKES_ONE_DISLIKES)[1].any()


def test_an_unknown_direction(judge_of):
    with pytest.raises(ConfigError, match="did you mean reflect"):
        judge_of(by_direction, "reflct")


def test_all_questions_on_a_text_are_asked_together(judge_of):
    # so that a model reads each text once, however often it is asked about
    judge, stub = judge_of(by_direction, "both")
    judge.score(["a", "b"], np.ones((2, 2, 2), dtype=bool))
    assert [text for text, _ in stub.calls] == ["a", "b", "a", "b"]  # following, then avoiding
    assert [[question.principle for question in questions] for _, questions in stub.calls] == [["casual", "gentle"]] * 4


def asked_anew(judge_of, text="a", needed=ONE_LIKES_ONE_DISLIKES, **changed):
    """Return how many questions another judge on the same store still has to ask."""
    judge, stub = judge_of(by_direction, **changed)
    judge.score([text], needed)
    return len(stub.asked)


def test_what_is_stored_is_not_asked_by_another_run_with_other_settings(judge_of):
    assert asked_anew(judge_of, "a", direction="both") == 4
    assert asked_anew(judge_of) == 0
    assert asked_anew(judge_of, direction="dual") == 0
    assert asked_anew(judge_of, retries=0, counts=CallCounts(asked=3, made=3)) == 0
    assert asked_anew(judge_of, principles=("gentle", "casual")) == 0
    assert asked_anew(judge_of, role="another", address="elsewhere") == 0


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ({"text": "b"}, 2),
        ({"text": "a "}, 2),
        ({"principles": ("casual", "persuasive")}, 1),
        ({"direction": "dual"}, 1),  # the one who dislikes "gentle" is asked how strongly it is avoided
        ({"identity": "stub@2"}, 2),
        ({"engine": "hf"}, 2),
        ({"sampling": '{"temperature": 1}'}, 2),
    ],
)
def test_what_makes_another_question_is_asked_anew(judge_of, changed, count):
    asked_anew(judge_of)
    assert asked_anew(judge_of, **changed) == count


@pytest.mark.parametrize("part", ["RUBRIC_VERSION", "SYSTEM"])
def test_another_rubric_asks_anew(judge_of, monkeypatch, part):
    asked_anew(judge_of)
    monkeypatch.setattr(judging, part, "another")
    assert asked_anew(judge_of) == 2


def test_half_of_a_surrogate_pair_is_judged(judge_of, tmp_path):
    judge, _ = judge_of(by_direction)
    assert judge.score(["a \ud800"], ONE_LIKES_ONE_DISLIKES)[1].any()
    judge = Judge(SimulatedJudge(), Store(tmp_path / "s.sqlite").scores, CallCounts(), ["casual\ud800"])
    with pytest.raises(ConfigError, match="did you mean casual"):
        judge.score(["a"], np.ones((1, 2, 1), dtype=bool))


class Streamed:
    """Rates questions about many texts at once, in reverse; `rate` takes (call, attempt)."""

    identity, engine, sampling = "streamed@1", "remote", "{}"

    def __init__(self, rate):
        self.rate, self.rounds = rate, []

    def score(self, text, questions, keys):
        raise AssertionError("questions about many texts are asked at once")

    def stream_scores(self, calls):
        self.rounds.append(list(calls))
        for place in reversed(range(len(calls))):
            yield [Answer(place, self.rate(calls[place], len(self.rounds)), Usage(20, 1))]


def streamed_judge(tmp_path, rate, counts):
    model = Streamed(rate)
    return Judge(model, Store(tmp_path / "s.sqlite").scores, counts, ("casual", "gentle"), "reflect", 2), model


def test_a_streaming_judge_is_asked_for_all_texts_at_once_and_each_rating_reaches_its_question(tmp_path):
    counts = CallCounts()
    judge, model = streamed_judge(
        tmp_path, lambda call, _: len(call.text) + 2.0 * (call.question.principle == "gentle"), counts
    )
    scores, known = judge.score(["a", "bb", "a"], np.ones((3, 2, 2), dtype=bool))
    assert known.all()
    assert scores[:, 0].tolist() == [[1, 3], [2, 4], [1, 3]]
    assert [len(asked) for asked in model.rounds] == [4]
    assert (counts.asked, counts.made, counts.tokens_in, counts.tokens_out) == (6, 4, 80, 4)


def test_a_streaming_judge_is_asked_again_with_a_new_seed_only_for_what_has_no_verdict(tmp_path):
    counts = CallCounts()
    judge, model = streamed_judge(
        tmp_path, lambda call, attempt: None if call.text == "bb" and attempt < 3 else 7.0, counts
    )
    scores, known = judge.score(["a", "bb"], np.ones((2, 2, 2), dtype=bool))
    assert known.all() and (scores == 7).all()
    assert [[call.text for call in asked] for asked in model.rounds] == [["a", "a", "bb", "bb"], ["bb"] * 2, ["bb"] * 2]
    assert len({call.seed for asked in model.rounds for call in asked}) == 8
    assert counts.tokens_in == 160
    judge, _ = streamed_judge(tmp_path, lambda call, _: None, CallCounts())
    assert not judge.score(["c"], np.ones((1, 2, 2), dtype=bool))[1].any()
