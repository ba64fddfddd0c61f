import numpy as np
import pytest

from apm_lab.data.pool import Pool
from apm_lab.data.prompts import read_prompts
from apm_lab.errors import ConfigError
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated.reader import BayesReader
from apm_lab.language.simulated.rewriter import SimulatedRewriter
from apm_lab.language.simulated.wordings import ATTRIBUTES

PROMPTS = [prompt.text for prompt in read_prompts()]
USERS = 1500


@pytest.fixture(scope="module")
def people():
    """Return 1500 users with one attribute each and four prompts in their style."""
    pool, rng = Pool.chosen(10, None, None, "system"), np.random.default_rng(1)
    classes = rng.integers(20, size=USERS)
    histories = []
    for user, number in enumerate(classes.tolist(), 1):
        attributes = [0] * 10
        attributes[number // 2] = 1 if number % 2 == 0 else -1
        chosen = rng.choice(len(PROMPTS), 4, replace=False)
        calls = [GenerationCall(pool.rewriting_messages(attributes, PROMPTS[i]), user) for i in chosen]
        histories.append(SimulatedRewriter().generate(calls))
    return classes, histories


@pytest.mark.parametrize(("turns", "expected"), [(1, 0.43), (2, 0.57), (4, 0.71)])
def test_the_best_possible_reader(people, turns, expected):
    classes, histories = people
    posterior = BayesReader(ATTRIBUTES, PROMPTS).posterior([history[:turns] for history in histories])
    assert posterior.sum(axis=1) == pytest.approx(np.ones(USERS))
    accuracy = (posterior.argmax(axis=1) == classes).mean()
    print(f"Bayes accuracy at {turns} prompts: {accuracy:.3f}")
    # .005 for the published figure's rounding, and three binomial standard errors
    assert abs(accuracy - expected) < 0.005 + 3 * np.sqrt(expected * (1 - expected) / USERS)


def test_its_posterior_is_calibrated(people):
    classes, histories = people
    posterior = BayesReader(ATTRIBUTES, PROMPTS).posterior([history[:2] for history in histories])
    right = posterior.argmax(axis=1) == classes
    assert abs(posterior.max(axis=1).mean() - right.mean()) < 3 * np.sqrt(0.25 / USERS)


def test_the_order_of_prompts_tells_nothing(people):
    _, histories = people
    reader = BayesReader(ATTRIBUTES, PROMPTS)
    forwards = reader.posterior(histories[:50])
    assert reader.posterior([history[::-1] for history in histories[:50]]) == pytest.approx(forwards)


def test_an_unknown_attribute_is_named():
    with pytest.raises(ConfigError, match=r"verbos.*did you mean verbose"):
        BayesReader(["verbos"], PROMPTS[:2])
