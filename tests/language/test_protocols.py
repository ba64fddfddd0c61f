import re

import pytest

from apm_lab.data.pool import ATTRIBUTES, PRINCIPLES, slug
from apm_lab.errors import ConfigError
from apm_lab.language.protocols import KnowsItsPool
from apm_lab.language.simulated.judge import SimulatedJudge
from apm_lab.language.simulated.responder import SimulatedResponder
from apm_lab.language.simulated.rewriter import SimulatedRewriter

REWRITER, RESPONDER, JUDGE = SimulatedRewriter(), SimulatedResponder("test", 0.5, 1.0), SimulatedJudge()
KEYS = [slug(name) for name in ATTRIBUTES], [slug(name) for name in PRINCIPLES]


class AnyName:
    """A language model, which takes any name."""

    identity, engine, sampling = "model@1", "hf", "{}"

    def generate(self, calls):
        return ["text"] * len(calls)


@pytest.mark.parametrize("backend", [REWRITER, RESPONDER, JUDGE], ids=lambda backend: type(backend).__name__)
def test_a_simulated_backend_knows_table_6(backend):
    assert isinstance(backend, KnowsItsPool)
    backend.require(*KEYS)
    backend.require([], [])


def test_a_language_model_needs_no_list():
    assert not isinstance(AnyName(), KnowsItsPool)


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        (REWRITER, "pool.attributes: the simulated rewriter can't render 'verbos'; did you mean verbose?"),
        (RESPONDER, "pool.principles: the simulated responder can't follow 'casul'; did you mean casual?"),
        (JUDGE, "pool.principles: the simulated judge has no reading of 'casul'; did you mean casual?"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unknown_name_is_refused_with_the_nearest(backend, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        backend.require(["anxious", "verbos"], ["gentle", "casul"])


def test_what_is_nothing_to_a_backend_is_not_asked_of_it():
    REWRITER.require(["verbose"], ["rhymes"])
    RESPONDER.require(["left_handed"], ["casual"])
    JUDGE.require(["left_handed"], ["casual"])
