"""What the assumed constants of the simulated world do: each halved and doubled, one row each.

    python bench/sensitivity.py [--quick]

Rows for what answers (shift) and judges (gain, length, negation): the oracle's cell with the fitted numbers kept. For
what rewrites (tail): the Bayes reader's accuracy. For the generator: the share of training users whose margin label is
their true top style. No router is trained.
"""

import argparse
from collections.abc import Callable

import numpy as np
from calibration import committed, oracle

from apm_lab.data.pool import ATTRIBUTES, PRINCIPLES, Pool, slug, styled_messages
from apm_lab.data.prompts import read_prompts
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated import constants, reader, responder, rewriter, wordings
from apm_lab.language.simulated.judge import read_styles
from apm_lab.records import Style

NAME = "simulated_qwen27b"


def forget() -> None:
    """Drop what was computed with other constants."""
    responder._last_levels().clear()
    for cached in (wordings.catalogue, rewriter._rates):
        cached.cache_clear()


def bayes_accuracy(prompts: list[str], users: int, turns: int = 2) -> float:
    """Return the Bayes reader's accuracy over 2N classes."""
    pool = Pool(ATTRIBUTES, PRINCIPLES)
    best = reader.BayesReader([slug(name) for name in ATTRIBUTES], prompts)
    rng = np.random.default_rng(3)
    classes = rng.integers(2 * len(ATTRIBUTES), size=users)
    histories = []
    for user, number in enumerate(classes.tolist(), 1):
        attributes = [0] * len(ATTRIBUTES)
        attributes[number // 2] = 1 if number % 2 == 0 else -1
        chosen = rng.choice(len(prompts), turns, replace=False)
        calls = [GenerationCall(pool.rewriting_messages(attributes, prompts[i]), user) for i in chosen]
        histories.append(rewriter.SimulatedRewriter().generate(calls))
    return float((best.posterior(histories).argmax(axis=1) == classes).mean())


def label_accuracy(prompts: list[str], compliance: float, noise: float) -> float:
    """Return how often the margin label over two prompts is the user's true style, N=M=10, k=1 and a permutation."""
    model = responder.SimulatedResponder("simulated_generator", compliance, noise)
    order = [list(constants.load_yaml("lexicon.yaml")).index(slug(principle)) for principle in PRINCIPLES]
    rng, hits, M = np.random.default_rng(5), 0, len(PRINCIPLES)
    for user in range(len(prompts) // 2):
        style = Style.of(int(rng.integers(2 * M)))
        margin = np.zeros(M)
        for prompt in prompts[2 * user : 2 * user + 2]:
            calls = [
                GenerationCall(styled_messages(PRINCIPLES, "system", prompt, Style.of(s)), user + 1)
                for s in range(2 * M)
            ]
            scores = np.array([read_styles(text) for text in model.generate(calls)])[:, order]
            rating = style.direction * np.floor(scores[:, style.principle] + rng.random(2 * M))
            margin += rating[0::2] - rating[1::2]
        best = int(np.abs(margin).argmax())
        hits += best == style.principle and np.sign(margin[best]) == style.direction
    return hits / (len(prompts) // 2)


def main() -> None:
    """Print the rows; the last line is `ratio=...`: the oracle's Delta at half the shift over that at the table's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    prompts = [prompt.text for prompt in read_prompts()][: 60 if quick else 640]
    users = 300 if quick else 3000
    fitted = committed()[NAME]
    made = constants.constant("generator")
    deltas = {}

    def row(label: str, measure: Callable[[], str]) -> None:
        forget()
        print(f"{label:34s} {measure()}", flush=True)

    def cell(label: str) -> str:
        found = oracle(NAME, *fitted, prompts)
        deltas[label] = found.delta
        return f"oracle Delta {found.delta:+.2f}  W/L {found.wl:.2f}"

    row("as in the table", lambda: cell("table"))
    for name in ("shift", "judge_gain"):
        entry = constants.constant(name)
        kept = entry["value"]
        for factor in (0.5, 2.0):
            entry["value"] = kept * factor
            row(f"{name} x {factor}", lambda name=name, factor=factor: cell(f"{name} {factor}"))
        entry["value"] = kept
    length = constants.constant("judge_length")
    usual = length["usual_words"]
    for factor in (0.5, 2.0):
        length["usual_words"] = usual * factor
        row(f"judge_length x {factor}", lambda factor=factor: cell(f"judge_length {factor}"))
    length["usual_words"] = usual
    negation = constants.constant("judge_negation")
    reach = negation["value"]
    for factor in (0.5, 2.0):
        negation["value"] = int(reach * factor)
        row(f"judge_negation x {factor}", lambda factor=factor: cell(f"judge_negation {factor}"))
    negation["value"] = reach
    row("tail as in the table", lambda: f"Bayes accuracy at N=10, 2 prompts {bayes_accuracy(prompts, users):.3f}")
    tail = constants.constant("tail")
    kept_rates = tail["rates"]
    for factor in (0.5, 2.0):
        tail["rates"] = [min(1.0, rate * factor) for rate in kept_rates]
        row(f"tail rates x {factor} (at most 1)", lambda: f"Bayes accuracy {bayes_accuracy(prompts, users):.3f}")
    tail["rates"] = kept_rates
    c, n = made["compliance"], made["noise"]
    for label, compliance, noise in (
        ("generator as in the table", c, n),
        ("generator compliance x 0.5", c / 2, n),
        ("generator compliance x 2 (at most 1)", min(1.0, 2 * c), n),
        ("generator noise x 0.5", c, n / 2),
        ("generator noise x 2", c, 2 * n),
    ):
        row(label, lambda c=compliance, n=noise: f"true margin labels {label_accuracy(prompts, c, n):.3f}")
    print(f"ratio={deltas['shift 0.5'] / deltas['table']:.3f} table={deltas['table']:.3f}")


if __name__ == "__main__":
    main()
