"""The simulated judge on the hand-written health set, and what a perturbation of its texts does to the oracle's Delta.

    python bench/judge_health.py [--quick]

Perturbation: NFKC, lower-casing, dropping punctuation, shuffling sentences, together (SPEC allows 15%). Last comes
`ratio`, the oracle Delta on perturbed texts over that on original ones.
"""

import argparse
import random
import re
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
from calibration import committed

from apm_lab.data.pool import PRINCIPLES, slug, styled_messages
from apm_lab.data.prompts import read_prompts
from apm_lab.data.store import Store
from apm_lab.judging.health import measure_health
from apm_lab.judging.judge import Judge
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.recall import CallCounts
from apm_lab.language.simulated import constants
from apm_lab.language.simulated.judge import SimulatedJudge, read_styles
from apm_lab.language.simulated.responder import SimulatedResponder
from apm_lab.records import Style


def perturbed(text: str, rng: random.Random) -> str:
    """Return the text in NFKC and lower case, its sentences shuffled and its punctuation dropped."""
    sentences = re.split(r"(?<=[.!?])\s+", unicodedata.normalize("NFKC", text).lower())
    rng.shuffle(sentences)
    return " ".join(re.sub(r"[^\w\s]", "", sentence) for sentence in sentences)


def oracle_deltas(prompts: list[str]) -> tuple[float, float]:
    """Return the oracle's Delta over all styles on original and on perturbed texts, by the judge's readings."""
    model = SimulatedResponder("simulated_qwen27b", *committed()["simulated_qwen27b"])
    order = [list(constants.load_yaml("lexicon.yaml")).index(slug(name)) for name in PRINCIPLES]
    rng, sums = random.Random(0), np.zeros(2)
    styles = [Style.of(index) for index in range(2 * len(PRINCIPLES))]
    for number, prompt in enumerate(prompts, 1):
        chats = [styled_messages(PRINCIPLES, "system", prompt, style) for style in (None, *styles)]
        texts = model.generate([GenerationCall(chat, number) for chat in chats])
        for kind, versions in enumerate((texts, [perturbed(text, rng) for text in texts])):
            readings = np.array([read_styles(text) for text in versions])[:, order]
            gains = [
                style.direction * (readings[s, style.principle] - readings[0, style.principle])
                for s, style in enumerate(styles, 1)
            ]
            sums[kind] += float(np.mean(gains))
    return tuple(sums / len(prompts))


def main() -> None:
    """Print AUC per principle, Pearson(s+, s-) and both Deltas."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    prompts = [prompt.text for prompt in read_prompts()][: 60 if parser.parse_args().quick else 640]
    for score in ("sampled", "expected"):
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder) / "store")
            judge = Judge(SimulatedJudge(score), store.scores, CallCounts(), [slug(name) for name in PRINCIPLES])
            health = measure_health(judge)
        mean, least = np.mean(list(health.auc.values())), min(health.auc, key=health.auc.__getitem__)
        print(
            f"judge.score={score}: mean AUC {mean:.3f}, least {health.auc[least]:.3f} ({least}), "
            f"Pearson(s+, s-) {health.pearson:+.3f}, {health.n} questions, {health.n_missing} missing"
        )
        print("  " + ", ".join(f"{name} {auc:.2f}" for name, auc in health.auc.items()))
    original, changed = oracle_deltas(prompts)
    print(f"oracle Delta {original:+.3f}, on perturbed texts {changed:+.3f}")
    print(f"ratio={changed / original:.3f} original={original:.3f} perturbed={changed:.3f}")


if __name__ == "__main__":
    main()
