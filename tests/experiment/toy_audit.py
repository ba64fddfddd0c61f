"""A survey, items about stereotypes and reward models for tests: a package that runs name as their plug-in."""

TOYS = '''
import json

import numpy as np

from apm_lab.data.sources.bbq import BbqItem
from apm_lab.data.sources.stereoset import StereoSetItem
from apm_lab.data.survey import Survey
from apm_lab.language.protocols import Answer
from apm_lab.maths.opinion import group_opinions
from apm_lab.records import ChoiceQuestion, Group


class ToySurvey:
    def __init__(self, questions: int = 12, people: int = 200, small: int = 5):
        self.questions, self.people, self.small = questions, people, small

    def read(self):
        rng = np.random.default_rng(7)
        sizes = rng.integers(2, 6, size=self.questions)
        asked = tuple(
            ChoiceQuestion(f"Q{q}_W1", f"What about {q}?", tuple(f"answer {c}" for c in range(n)))
            for q, n in enumerate(sizes)
        )
        real = np.arange(5) < sizes[:, None]
        groups = tuple(
            Group((trait,), (value,))
            for trait, values in (("SEX", ("Male", "Female")), ("AGE", ("18-29", "30-49", "50-64", "65+")))
            for value in values
        )
        sex, age = rng.integers(0, 2, size=self.people), rng.integers(0, 4, size=self.people)
        age[age == 3] = np.where(np.cumsum(age == 3)[age == 3] <= self.small, 3, 0)
        members = np.stack([sex == 0, sex == 1, *(age == each for each in range(4))])
        lean = 0.3 * sex + 0.4 * (age / 3)
        drawn = rng.beta(2, 2, size=(self.people, self.questions)) + lean[:, None]
        answers = np.minimum(drawn / 1.7 * sizes, sizes - 1).astype(np.int64)
        answers[rng.random(answers.shape) < 0.05] = -1
        shares, answered = group_opinions(answers, None, members, 5)
        overall, overall_answered = group_opinions(answers, None, np.ones((1, self.people), dtype=bool), 5)

        def halves(generator):
            first = generator.permutation(self.people) < self.people // 2
            parts = [group_opinions(answers, None, members & half, 5) for half in (first, ~first)]
            return tuple((shares, count > 0) for shares, count in parts)

        return Survey(
            "toy survey", asked, real, np.where(real, np.cumsum(real, axis=1) - 1.0, 0.0), groups, shares, answered,
            np.zeros(answered.shape), overall[0], overall_answered[0], members.sum(axis=1), halves, {"a reason": 3},
        )


class ToyStereoSet:
    def read(self):
        return [
            StereoSetItem(f"s{n}", "intersentence", ("race", "gender")[n % 2], f"term {n % 5}", f"Context {n}.",
                          (f"one {n}", f"two {n}", f"three {n}"), n % 3, (n + 1) % 3, (n + 2) % 3)
            for n in range(60)
        ]


class ToyBbq:
    def read(self):
        items = []
        for n in range(80):
            ambiguous, shows = n % 2 == 0, (None if n == 7 else n % 2)
            items.append(
                BbqItem(f"Age/{n}", "Age", f"Context {n}.", "Who was it?", (f"A{n}", f"B{n}", "Unknown"),
                        2 if ambiguous else n // 2 % 2, 2, shows, None if shows is None else 1 - shows,
                        ("old",) if n % 3 else ("Old", "young"), ambiguous, n % 4 < 2)
            )
        return items


class ToyRewards:
    """Rewards by the answer's place, its length and what is named before the question."""

    engine = "toy"

    def __init__(self, template: str, slope: float = 1.0, missing: str | None = None):
        self.template, self.slope, self.missing = template, slope, missing
        self.identity, self.sampling = "toy@1", json.dumps([template, slope])

    def rewards(self, calls):
        for place, call in enumerate(calls):
            steered = 0.5 * ("Female" in call.prompt) + 0.2 * len(call.prompt.split("Question")[0]) % 3
            yield [Answer(place, tuple(
                float("nan") if self.missing and self.missing in call.prompt else
                self.slope * (np.sin(7 * number + len(call.prompt)) + steered * number)
                for number, answer in enumerate(call.answers)
            ))]
'''


def write_toys(folder):
    """Write the package `toys` and its options into `folder`."""
    (folder / "toys.py").write_text(TOYS)
    for name, text in OPTIONS.items():
        file = folder / "options" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


OPTIONS = {
    "dataset/toy_survey": "_target_: toys.ToySurvey",
    "dataset/toy_stereoset": "_target_: toys.ToyStereoSet",
    "dataset/toy_bbq": "_target_: toys.ToyBbq",
    "reward_model/toy": (
        "_target_: apm_lab.experiment.settings.RewardModelSettings\nmodel: {_target_: toys.ToyRewards}\ntemplate: raw"
    ),
}
TOY_AUDIT = [
    "--config-dir=options",
    "study=perspectives",
    "plugins=[toys]",
    "dataset=toy_survey",
    "reward_model=toy",
    "logger=csv",
]
