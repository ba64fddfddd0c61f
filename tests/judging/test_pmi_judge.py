import json
import math

import numpy as np
import pytest

from apm_lab.data.pool import PRINCIPLES, slug, style_instruction
from apm_lab.data.store import Store
from apm_lab.errors import BudgetError, ConfigError, JudgeError, MissingPackageError
from apm_lab.judging import differences, pmi_judge, reference
from apm_lab.judging.examples import examples_of
from apm_lab.judging.health import health_set, measure_health
from apm_lab.judging.judge import Judge, streamed_scores
from apm_lab.judging.pmi_judge import PmiJudge
from apm_lab.judging.reference import Scale, reference_texts
from apm_lab.language.budget import Budget, Guarded
from apm_lab.language.foresight import Foreseen, Outlook
from apm_lab.language.protocols import Answer, Question, ScoreModel, StreamsScores, Usage
from apm_lab.language.recall import CallCounts
from apm_lab.records import Message

FOLLOW, AVOID = Question("casual", 1), Question("casual", -1)
TRUTH = {text: 9.0 * sign for side, sign in (("follow", 1), ("avoid", -1)) for text in health_set()["casual"][side]}


class Hears:
    """Finds a text likelier the more of its words stand in its list, when told to be casual; answers in reverse."""

    identity, engine, sampling = "hears@1", "hf", '{"dtype": "float32"}'

    def __init__(self, told=lambda text: 2.0 * sum(word.strip(".,!") in ("the", "a", "of") for word in text.split())):
        self.told, self.calls = told, []

    def log_probabilities(self, calls):
        self.calls += calls
        for place in reversed(range(len(calls))):
            (text,) = calls[place].answers
            sign = -1 if "Avoid" in calls[place].messages[-1].content else 1
            yield [Answer(place, (-3.0 * len(text.split()) + sign * self.told(text),), Usage(50, 0))]


def rate(model, text, question=FOLLOW):
    return PmiJudge(model).score(text, [question], [b"seed"])[0]


def test_it_is_a_score_model_that_streams():
    assert isinstance(PmiJudge(Hears()), StreamsScores)
    assert all(hasattr(PmiJudge(Hears()), name) for name in vars(ScoreModel) if not name.startswith("_"))


@pytest.mark.parametrize("few_shot", [True, False])
def test_a_text_is_held_against_both_instructions_of_the_pool(few_shot):
    model = Hears()
    PmiJudge(model, few_shot).score("some words", [FOLLOW], [b""])
    assert {call.messages for call in model.calls[-2:]} == {call.messages for call in model.calls}
    assert [call.answers for call in model.calls[-2:]] == [("some words",)] * 2
    for call, sign in zip(model.calls[-2:], (1, -1), strict=True):
        *shown, last = call.messages
        assert (last.role, last.content) == ("user", style_instruction("casual", sign))
        assert shown[::2] == [last] * len(shown[::2])
        texts = [one.text for one in examples_of("casual") if (one.rating > 5) == (sign > 0)]
        assert [(turn.role, turn.content) for turn in shown[1::2]] == [("assistant", text) for text in texts] * few_shot


def test_a_principle_of_ones_own_has_no_examples():
    model = Hears()
    PmiJudge(model).score("some words", [Question("rhymes", 1)], [b""])
    assert {call.messages for call in model.calls} == {
        (Message("user", "Be rhymes."),),
        (Message("user", "Avoid being rhymes."),),
    }


def test_ratings_rise_with_the_difference_and_end_at_the_ends_of_the_scale():
    usual = Hears().told
    model = Hears(lambda text: float(text) if text.lstrip("-").isdigit() else usual(text))
    ratings = [rate(model, str(difference)) for difference in (-100, -1, 0, 3, 6, 12, 100)]
    assert ratings == sorted(ratings)
    assert (ratings[0], ratings[-1]) == (1, 10)
    assert len(set(ratings)) == len(ratings)


def test_avoiding_is_eleven_less_following():
    model = Hears()
    for text in ("the cat", "cats", reference_texts("casual")[0]):
        assert rate(model, text, AVOID) == pytest.approx(11 - rate(model, text))


def test_a_scale_by_hand():
    scale = Scale.of(
        "casual", [0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    )  # 10th percentile 1, median 5, 90th 9: 8 are 3 points
    assert [scale.rating(value) for value in (5.0, 1.0, 9.0, 6.0)] == pytest.approx([5.5, 4, 7, 5.875])
    assert (scale.rating(-100.0), scale.rating(100.0)) == (1, 10)
    assert [scale.rating(value) for value in (math.nan, math.inf, -math.inf)] == [None] * 3
    lopsided = Scale.of("casual", [0.0, 0, 0, 0, 0, 0, 4, 6, 8, 12, 14])
    assert lopsided.rating(0.0) == 5.5
    assert lopsided.rating(6.0) == pytest.approx(5.5 + 1.5)  # its 10th and 90th percentiles are 0 and 12


def test_the_reference_is_measured_once_per_principle():
    model = Hears()
    judge = PmiJudge(model)
    judge.score("one", [FOLLOW, AVOID], [b"", b""])
    many = len(reference_texts("casual"))
    assert len(model.calls) == 2 * many + 4
    judge.score("two", [FOLLOW], [b""])
    assert len(model.calls) == 2 * many + 6
    judge.score("two", [Question("gentle", 1)], [b""])
    assert len(model.calls) == 4 * many + 8


def test_many_questions_each_get_their_own_answer_and_tokens():
    model, texts = Hears(), ["x " * n + "the " * (n % 5) for n in range(1, 300)]
    judge = PmiJudge(model)
    calls = [pmi_judge.ScoreCall(text, FOLLOW, b"") for text in texts]
    answers = {answer.place: answer for group in judge.stream_scores(calls) for answer in group}
    assert sorted(answers) == list(range(len(texts)))
    assert {answer.usage for answer in answers.values()} == {Usage(100, 0)}
    for place in (0, 3, 17, 255, 256, 298):
        assert answers[place].value == rate(Hears(), texts[place])


@pytest.mark.parametrize("difference", [math.nan, math.inf, -math.inf])
def test_what_is_no_probability_is_no_verdict(difference):
    told = Hears().told
    assert rate(Hears(lambda text: difference if text == "odd" else told(text)), "odd", AVOID) is None


def test_a_text_without_a_probability_is_not_asked_again(tmp_path):
    told = Hears().told
    model = Hears(lambda text: math.nan if text == "odd" else told(text))
    judge = Judge(PmiJudge(model), Store(tmp_path / "s.sqlite").scores, CallCounts(), ("casual",), "reflect", 2)
    assert not judge.score(["odd"], np.ones((1, 2, 1), dtype=bool))[1].any()
    assert sum(call.answers == ("odd",) for call in model.calls) == 2


def test_a_model_that_does_not_hear_the_instruction_is_told():
    for told in (lambda text: 0.0, lambda text: math.nan):
        with pytest.raises(JudgeError, match=r"'casual'.*equally likely"):
            rate(Hears(told), "a text")


@pytest.mark.parametrize("score", ["sampled", "expected"])
def test_another_score_is_refused(score):
    with pytest.raises(ConfigError, match=f"judge.score={score}: .*expected pmi"):
        PmiJudge(Hears(), score=score)


def test_a_backend_without_probabilities_is_refused():
    with pytest.raises(ConfigError, match=r"judge\.score=pmi: .*no log_probabilities"):
        PmiJudge(object())


def test_whatever_shapes_a_rating_is_in_the_key(monkeypatch):
    def key(model=None):
        judge = PmiJudge(model or Hears())
        assert json.dumps(json.loads(judge.sampling), sort_keys=True) == judge.sampling
        return judge.identity, judge.engine, judge.sampling

    other = Hears()
    other.sampling = '{"dtype": "bfloat16"}'
    keys = [key(), key(other), (*key()[:2], PmiJudge(Hears(), few_shot=False).sampling)]
    monkeypatch.setattr(differences, "style_instruction", lambda *told: f"Please. {style_instruction(*told)}")
    keys.append(key())
    monkeypatch.undo()
    monkeypatch.setattr(pmi_judge, "reference_digest", lambda: "others")
    keys.append(key())
    assert len(set(keys)) == 5


@pytest.mark.parametrize("name", ["_LOW", "_REACH"])
def test_the_references_digest_follows_the_scale(monkeypatch, name):
    before = reference.reference_digest()
    monkeypatch.setattr(reference, name, 7)
    assert reference.reference_digest() != before


def test_no_text_is_its_own_reference():
    health = {text for sides in health_set().values() for side in sides.values() for text in side}
    for name in health_set():
        texts = reference_texts(name)
        assert len(set(texts)) == len(texts) == 56
        assert not set(texts) & (health | {one.text for one in examples_of(name)})
    assert len(reference_texts("rhymes")) == 60


def test_health_asks_once_per_text_and_checks_no_correlation(tmp_path):
    model = Hears(lambda text: TRUTH.get(text, len(text) % 7 - 3.0))
    store = Store(tmp_path / "s.sqlite")
    judge = Judge(PmiJudge(model), store.scores, CallCounts(), ("casual",), "both")
    health = measure_health(judge)
    assert (health.auc, health.faults, health.n) == ({"casual": 1.0}, [], 24)
    assert (health.pearson, health.imbalance, health.mirrored) == (None, None, True)
    assert store.scores.count() == 24
    scores, known = judge.score([next(iter(TRUTH))], np.ones((1, 2, 1), dtype=bool))
    assert known.all()
    assert scores[0, 0] == scores[0, 1]


@pytest.mark.parametrize("few_shot", [True, False])
def test_what_a_plan_counts_is_what_both_chats_hold(tmp_path, few_shot):
    model, outlook, texts = Hears(), Outlook(), ["a text", "another, longer text " * 9]
    judge, shelf = PmiJudge(model, few_shot), Store(tmp_path / "s.sqlite").scores
    double = Foreseen(outlook, "judge", judge, shelf, streamed_scores)
    Judge(double, double, CallCounts(), ("casual",), "both").score(texts, np.ones((2, 2, 1), dtype=bool))
    (forecast,) = outlook.forecasts.values()
    assert model.calls == []
    judge.score(texts[0], [FOLLOW], [b""])
    judge.score(texts[1], [FOLLOW], [b""])
    read = [call for call in model.calls if call.answers[0] in texts]
    assert forecast.characters == sum(
        len(text) for call in read for text in (*call.answers, *(turn.content for turn in call.messages))
    )


def with_reference(tmp_path, model, counts, wrap=lambda judge: judge):
    """Return the judge as a run builds it: its reference is asked through the store and the counts too."""
    pmi, shelf = PmiJudge(model), Store(tmp_path / "s.sqlite").scores
    reference = Judge(wrap(pmi.differences), shelf, counts, ("casual", "gentle"), retries=0)
    return Judge(wrap(pmi), shelf, counts, ("casual", "gentle"), "reflect", 2, reference)


ONE = np.array([[[True, False]] * 2])


def test_the_reference_is_counted_and_kept(tmp_path):
    model, counts = Hears(), CallCounts()
    scores, known = with_reference(tmp_path, model, counts).score(["some of the words"], ONE)
    assert known[0, :, 0].all()
    assert scores[0, 0, 0] == pytest.approx(rate(Hears(), "some of the words"), abs=1e-5)
    many = len(reference_texts("casual"))
    assert len(model.calls) == 2 * (many + 1)
    assert (counts.asked, counts.made, counts.tokens_in) == (many + 1, many + 1, 100 * (many + 1))
    later, counts = Hears(), CallCounts()
    again, _ = with_reference(tmp_path, later, counts).score(["others of the words"], ONE)
    assert len(later.calls) == 2  # another process has the scale from the store
    assert (counts.asked, counts.made) == (many + 1, 1)
    assert again[0, 0, 0] == pytest.approx(rate(Hears(), "others of the words"), abs=1e-5)


def test_a_budget_holds_the_reference_back(tmp_path):
    budget = Budget(calls=40)
    model = Hears()
    judge = with_reference(
        tmp_path, model, CallCounts(), lambda asked: Guarded(asked, "judge", budget, (0.0, 0.0), streamed_scores)
    )
    with pytest.raises(BudgetError, match=r"40 calls \(judge 40\)"):
        judge.score(["a"], ONE)
    assert len(model.calls) == 80


@pytest.mark.parametrize("told", [lambda text: 0.0, lambda text: math.nan])
def test_a_model_that_does_not_hear_is_told_by_a_kept_reference_too(tmp_path, told):
    with pytest.raises(JudgeError, match=r"'casual'.*equally likely"):
        with_reference(tmp_path, Hears(told), CallCounts()).score(["a"], ONE)


def test_all_principles_of_the_pool_are_told_apart():
    model = Hears()
    judge = PmiJudge(model)
    list(judge.stream_scores([pmi_judge.ScoreCall("a", Question(slug(name), 1), b"") for name in PRINCIPLES]))
    assert len({call.messages[-1].content for call in model.calls}) == 2 * len(PRINCIPLES)


def test_what_its_backend_lacks_is_said_through_it():
    class Bare(Hears):
        def ready(self):
            raise MissingPackageError("no weights here")

        def require(self, attributes, principles):
            raise ConfigError("unknown")

    with pytest.raises(MissingPackageError, match="no weights here"):
        PmiJudge(Bare()).ready()
    with pytest.raises(ConfigError, match="unknown"):
        PmiJudge(Bare()).require([], [])
    PmiJudge(Hears()).ready()
    PmiJudge(Hears()).require([], ["casual"])
