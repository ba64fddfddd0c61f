import pytest

from apm_lab.data.store import Store
from apm_lab.judging.judge import Judge
from apm_lab.language.recall import CallCounts


class Stub:
    """Rates by a function of (text, question, key) and keeps what it was asked, call by call."""

    identity, engine, sampling = "stub@1", "simulated", "{}"

    def __init__(self, rate):
        self.rate, self.calls = rate, []

    @property
    def asked(self):
        return [(text, question) for text, questions in self.calls for question in questions]

    def score(self, text, questions, keys):
        self.calls.append((text, tuple(questions)))
        return [self.rate(text, question, key) for question, key in zip(questions, keys, strict=True)]


@pytest.fixture
def judge_of(tmp_path):
    """Return a maker of judges on one store, each with the stub that it asks."""

    def make(rate, direction="reflect", principles=("casual", "gentle"), retries=2, counts=None, **named):
        stub = Stub(rate)
        for name, value in named.items():
            setattr(stub, name, value)
        shelf = Store(tmp_path / "stub.sqlite").scores
        return Judge(stub, shelf, counts or CallCounts(), principles, direction, retries), stub

    return make
