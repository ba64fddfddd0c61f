"""A study's calls ahead of time are the calls that it then makes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from small_world import silent, small_study

from apm_lab.errors import JudgeError, PendingCalls
from apm_lab.judging.health import measure_health
from apm_lab.language.foresight import Outlook, is_pending
from apm_lab.language.protocols import Answer
from apm_lab.language.recall import CallCounts, StoredTexts
from apm_lab.maths.mapping import Gaussian
from apm_lab.studies.outlook import collect, look_ahead

ROLES = ("rewriter", "generator", "model", "judge")


def foreseen(*studies):
    """Return (asked, stored, missing, open) by role."""
    outlook = Outlook()
    for study in studies:
        look_ahead(study, outlook, silent)
    found = {role: (one.asked, one.stored, one.missing, one.open) for (role, _), one in outlook.forecasts.items()}
    return [found[role] for role in ROLES]


def made(study):
    """Return how many calls each role makes when the study is built."""
    counts = [getattr(study, role)._counts for role in ROLES]
    before = [count.made for count in counts]
    measure_health(study.judge)
    study.build(silent)
    return [count.made - start for count, start in zip(counts, before, strict=True)]


@pytest.mark.parametrize(
    "settings",
    [{}, {"mapping": Gaussian(), "turns": 1}, {"judged_validation": True}, {"validation": 0}],
    ids=["default", "dense", "judged", "nobody"],
)
def test_what_is_foreseen_is_what_is_made(tmp_path, settings):
    study = small_study(tmp_path, **settings)
    ahead = foreseen(study)
    assert study.rewriter.shelf.count() == 0  # nobody was asked
    assert ahead[0][3] == 0
    assert ahead[1][3] == ahead[1][2]  # candidates depend on rewritten prompts
    done = made(study)
    assert all(bound >= real > 0 for (_, _, bound, _), real in zip(ahead, done, strict=True))
    assert [bound for _, _, bound, _ in ahead[:3]] == done[:3]
    again = foreseen(study)
    assert [missing for _, _, missing, _ in again] == [0, 0, 0, 0]
    assert [stored for _, stored, _, _ in again] == done  # now exact, the judge's too


def test_what_two_studies_share_counts_once(tmp_path):
    one, two = small_study(tmp_path), small_study(tmp_path, mapping=Gaussian(), train=70)
    apart, together = foreseen(two), foreseen(one, two)
    assert together[:3] == apart[:3]
    assert foreseen(one, one) == foreseen(one)


def test_halfway_the_known_part_is_exact(tmp_path):
    study = small_study(tmp_path)
    small_study(tmp_path, train=30, validation=0, test=1).build(silent)
    asked, stored, missing, depends = foreseen(study)[1]
    assert stored == 30 * 2 * 6
    assert asked == stored + missing
    assert depends == missing


class Later:
    """Answers only what `answers` allows; notes the rest while collecting."""

    engine, sampling, identity = "remote", "{}", "later@1"

    def __init__(self, model):
        self.inner, self.collecting = model, False
        self.allowed, self.noted, self.exports = set(), [], 0

    def stream(self, calls):
        ready = [(place, call) for place, call in enumerate(calls) if call in self.allowed]
        if ready:
            texts = self.inner.generate([call for _, call in ready])
            yield [Answer(place, text) for (place, _), text in zip(ready, texts, strict=True)]
        if len(ready) < len(calls):
            self.defer([call for call in calls if call not in self.allowed])
            if not self.collecting:
                self.export()

    def defer(self, calls):
        self.noted += [call for call in calls if call not in self.noted]

    def export(self):
        self.exports += 1
        if self.noted:
            raise PendingCalls(f"{len(self.noted)} wait")


def test_a_backend_that_answers_later_sends_out_a_whole_stage(tmp_path):
    study = small_study(tmp_path)
    later = {}
    counts = {role: CallCounts() for role in ROLES}
    for role in ("generator", "model"):
        texts = getattr(study, role)
        later[role] = Later(texts.model)
        setattr(study, role, StoredTexts(later[role], texts.shelf, counts[role]))
    with pytest.raises(PendingCalls, match=r"^816 wait\n320 wait$"):
        collect(study, counts, silent)
    assert counts["rewriter"].made == 256  # whoever can answer has done so
    assert counts["judge"].made == 144  # only the health check: no text to judge is there
    assert not any(is_pending(turn.content) for one in later.values() for call in one.noted for turn in call.messages)
    assert [one.exports for one in later.values()] == [1, 1]
    for one in later.values():
        one.allowed, one.noted = set(one.noted[:-1]), []  # an import in part
    with pytest.raises(PendingCalls, match=r"^1 wait\n1 wait$"):
        collect(study, counts, silent)
    assert (counts["generator"].made, counts["model"].made) == (815, 319)
    for one in later.values():
        one.allowed, one.noted = one.allowed | set(one.noted), []
    collect(study, counts, silent)
    assert (counts["generator"].made, counts["model"].made) == (816, 320)
    before = {role: count.made for role, count in counts.items()}
    study.build(silent)
    assert {role: count.made for role, count in counts.items()} == before
    assert not any(one.collecting for one in later.values())


def test_nobody_answers_later_nothing_is_done(tmp_path):
    study = small_study(tmp_path)
    collect(study, {}, silent)
    assert study.rewriter.shelf.count() == 0


def test_nothing_is_collected_for_an_unhealthy_judge(tmp_path):
    study = small_study(tmp_path)
    study.generator = StoredTexts(Later(study.generator.model), study.generator.shelf, CallCounts())
    study.judge.model.score = lambda text, questions, keys: [5.0] * len(questions)
    with pytest.raises(JudgeError):
        collect(study, {role: CallCounts() for role in ROLES}, silent)
    assert study.generator.model.noted == []
