"""A reward model for tests, in a file of its own: processes that are started import it."""

import json
from pathlib import Path

from apm_lab.language.protocols import Answer


class Lengths:
    """Rewards an answer by its length; one prompt has no number. Notes what it was asked in a file."""

    engine, identity, sampling = "toy", "lengths@1", json.dumps({})

    def __init__(self, log):
        self.log = str(log)

    def rewards(self, calls):
        for place, call in enumerate(calls):
            with Path(self.log).open("a") as file:
                file.write(f"{call.prompt}\n")
            missing = call.prompt == "prompt 7"
            yield [Answer(place, tuple(float("nan") if missing else float(len(text)) for text in call.answers))]
