"""A budget is not passed, whatever the answers take; what was answered is kept."""

import pytest

from apm_lab.data.store import Store
from apm_lab.errors import BudgetError
from apm_lab.judging.judge import streamed_scores
from apm_lab.judging.language_judge import LanguageJudge
from apm_lab.language.budget import Budget, Guarded, Spent, most_tokens_out
from apm_lab.language.prices import cost, price_of
from apm_lab.language.protocols import Answer, GenerationCall, Question, ScoreCall, Usage
from apm_lab.language.recall import CallCounts, StoredTexts, streamed
from apm_lab.records import Message


class Model:
    engine, identity, sampling, extra = "remote", "m@1", '{"max_tokens": 20}', "known"

    def __init__(self, read=5, written=20):
        self.used, self.asked = Usage(read, written), []

    def generate(self, calls):
        raise AssertionError("it streams")

    def stream(self, calls):
        self.asked.append(len(calls))
        for place in range(len(calls)):
            yield [Answer(place, f"answer {place}", self.used)]


def calls(count, text="x" * 16):
    return [GenerationCall((Message("user", text),), sample) for sample in range(count)]


def guarded(model, price=(0.0, 0.0), **limits):
    budget = Budget(**limits)
    return Guarded(model, "model", budget, price, streamed), budget


def answered(model, wanted):
    found = []
    with pytest.raises(BudgetError) as caught:
        for group in model.stream(wanted):
            found += group
    return found, str(caught.value)


def test_no_more_calls_than_allowed():
    model, budget = guarded(Model(), calls=7)
    found, said = answered(model, calls(10))
    assert [answer.place for answer in found] == list(range(7))
    assert budget.spent == Spent(7, 175, 0.0, {"model": 7})
    assert "budget.calls=7" in said
    assert "7 calls (model 7), 175 tokens" in said
    assert "larger budget" in said


@pytest.mark.parametrize("read", [5, 80, 300])
def test_tokens_stay_below_the_limit_and_come_near_it(read):
    """Also where calls take more tokens than they have bytes: few are asked at first."""
    model, budget = guarded(Model(read=read), tokens=10_000)
    found, _ = answered(model, calls(3000))
    most = max(16 + 64, read) + 20
    assert 10_000 - most < budget.spent.tokens <= 10_000
    assert len(found) == budget.spent.calls


def test_money_stays_below_the_limit():
    model, budget = guarded(Model(), price=(1.0, 10.0), usd=0.01)
    answered(model, calls(3000))
    assert 0.0095 < budget.spent.usd <= 0.01
    assert budget.spent.usd == pytest.approx(budget.spent.calls * (5 * 1.0 + 20 * 10.0) / 1e6)


def test_without_a_limit_everything_is_asked_at_once():
    model, budget = guarded(Model())
    assert len([answer for group in model.stream(calls(100)) for answer in group]) == 100
    assert model._model.asked == [100]
    assert not budget.limited


def test_what_is_asked_in_parts_reaches_its_calls(tmp_path):
    """And a larger budget goes on where the smaller one stopped."""
    shelf = Store(tmp_path).texts
    small, _ = guarded(Model(), calls=3)
    counts = CallCounts()
    with pytest.raises(BudgetError):
        StoredTexts(small, shelf, counts).generate(calls(5))
    assert (counts.made, shelf.count()) == (3, 3)
    large, budget = guarded(Model(), calls=5)
    budget.spent = Spent(3)
    assert len(StoredTexts(large, shelf, CallCounts()).generate(calls(5))) == 5
    assert budget.spent.calls == 5


def test_the_model_behind_says_what_it_says():
    model, _ = guarded(Model(), calls=1)
    assert (model.identity, model.sampling, model.extra) == ("m@1", '{"max_tokens": 20}', "known")
    with pytest.raises(AttributeError):
        model.nothing  # noqa: B018


PRINCIPLES = ("casual", "gentle", "persuasive")


class Chats(Model):
    """Answers a joint question about three principles."""

    def stream(self, calls):
        self.asked.append([call.messages[-1].content.split("\n")[1] for call in calls])
        for place in range(len(calls)):
            yield [Answer(place, "casual: 9\ngentle: 3\npersuasive: 5", self.used)]


def questions(texts):
    return [ScoreCall(text, Question(name, 1), name.encode()) for text in texts for name in PRINCIPLES]


def joint(used=True, **limits):
    model = Chats()
    model.used = model.used if used else None
    judge = LanguageJudge(model, mode="joint", pool_principles=list(PRINCIPLES))
    budget = Budget(**limits)
    return Guarded(judge, "judge", budget, (1.0, 1.0), streamed_scores), budget, model


@pytest.mark.parametrize("limits", [{}, {"tokens": 10**9}, {"usd": 10**6}, {"calls": 300}])
def test_a_joint_judge_is_asked_once_about_each_text(limits):
    guard, budget, model = joint(**limits)
    texts = [f"text {number}" for number in range(100)]
    answers = {answer.place: answer.value for group in guard.stream_scores(questions(texts)) for answer in group}
    assert sorted(text for part in model.asked for text in part) == sorted(texts)
    assert [answers[place] for place in range(300)] == [9, 3, 5] * 100
    assert (budget.spent.calls, budget.spent.tokens) == (300, 100 * 25)


@pytest.mark.parametrize("used", [True, False])
def test_a_joint_judges_budget_ends_between_two_texts(used):
    guard, budget, model = joint(used, calls=8)
    with pytest.raises(BudgetError, match=r"6 calls \(judge 6\)"):
        list(guard.stream_scores(questions(["a", "b", "c"])))
    assert model.asked == [["a", "b"]]
    assert budget.spent.tokens == 2 * (25 if used else (1 + 300) // 4 + 1)


def test_a_joint_questions_tokens_are_bounded_once():
    """One request of about 6 KB goes out, not three."""
    guard, _, model = joint(tokens=7000)
    assert len([answer for group in guard.stream_scores(questions(["a"])) for answer in group]) == 3
    assert model.asked == [["a"]]


def test_a_narrow_judges_budget_may_end_within_a_text():
    guard, budget = guarded(LanguageJudge(Model()), calls=4)
    guard._ask = streamed_scores
    with pytest.raises(BudgetError):
        list(guard.stream_scores(questions(["a", "b"])))
    assert budget.spent.calls == 4


@pytest.mark.parametrize(
    ("sampling", "most"),
    [
        ('{"max_tokens": 60}', 60),
        ('{"backend": {"max_tokens": 5}, "score": "sampled"}', 5),
        ('{"max_tokens": null}', None),
        ("{}", None),
        ("[]", None),
        ("no json", None),
    ],
)
def test_the_longest_answer_is_read_off_the_sampling_values(sampling, most):
    assert most_tokens_out(sampling) == most


def test_a_price_is_found_by_id_and_never_made_up():
    prices = {"m": [1, 2], "m@2": [3, 4.5]}
    assert price_of(prices, "m@1", "remote") == (1.0, 2.0)
    assert price_of(prices, "m@2", "remote") == (3.0, 4.5)
    assert price_of(prices, "m", "hf") == (1.0, 2.0)
    assert price_of(prices, "other", "remote") is None
    assert price_of({}, "simulated_judge@1", "simulated") == (0.0, 0.0)
    assert cost((0.5, 2.0), 1_000_000, 250_000) == 1.0
