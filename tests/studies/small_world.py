"""A small benchmark in the simulated world, for tests."""

from pathlib import Path

from apm_lab.data.pool import Pool, slug
from apm_lab.data.prompts import read_prompts, split_prompts
from apm_lab.data.store import Store
from apm_lab.judging.judge import Judge
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.language.simulated.judge import SimulatedJudge
from apm_lab.language.simulated.reader import BayesReader
from apm_lab.language.simulated.responder import SimulatedResponder
from apm_lab.language.simulated.rewriter import SimulatedRewriter
from apm_lab.maths.mapping import SignedPermutation, draw_mappings
from apm_lab.methods.ngrams import NgramRouter
from apm_lab.methods.routing import Routing
from apm_lab.studies.personalization import Personalization, UserSettings

PERMUTATION = SignedPermutation()


class NoParts:
    """Keeps nothing."""

    def load(self, draw):
        return None

    def save(self, draw, arms):
        return None


def silent(stage, done, total):
    """Report no progress."""


def small_study(
    folder: Path,
    *,
    method=None,
    name="routing",
    size=3,
    train=60,
    test=40,
    validation=8,
    turns=2,
    draws=2,
    mapping=PERMUTATION,
    design="independent",
    principles=None,
    seed=0,
    **settings,
) -> Personalization:
    """Return a study on the packaged prompts whose store lies in `folder`."""
    store = Store(folder / "store")
    pool = Pool.chosen(size, None, principles, "system")
    users = UserSettings(train=train, test=test, validation=validation, turns=turns)
    prompts = split_prompts(read_prompts(), turns, seed)

    def stored(model):
        return StoredTexts(model, store.texts, CallCounts())

    return Personalization(
        pool=pool,
        users=users,
        prompts=prompts,
        mappings=draw_mappings(mapping, design, draws, len(pool.principles), len(pool.attributes), seed),
        normalise="l2",
        rewriter=stored(SimulatedRewriter()),
        generator=stored(SimulatedResponder("simulated_generator", 0.9, 1.5)),
        model=stored(SimulatedResponder("simulated_qwen27b", 0.599, 2.38)),
        judge=Judge(SimulatedJudge(), store.scores, CallCounts(), [slug(name) for name in pool.principles]),
        method=Routing(NgramRouter()) if method is None else method,
        method_name=name,
        seed=seed,
        reader=BayesReader([slug(name) for name in pool.attributes], [prompt.text for prompt in prompts.train]),
        **settings,
    )


def build_evaluation(study: Personalization):
    """Return the built world of a study."""
    return study.build(silent)
