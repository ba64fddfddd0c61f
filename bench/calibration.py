"""Fit the two numbers of each simulated preset to the oracle's cells of APM Table 1 (k = 1), and print all evidence.

    python bench/calibration.py            # fit, then fitted and published cells, judge health, sensitivity rows
    python bench/calibration.py --quick    # evaluate the committed values on fewer users, fit nothing

Only the oracle is looked at: no routing row is computed here. A preset's compliance and noise are moved until Delta and
W/L, averaged over every test user and all 2M styles (what random signed permutations average to), hit the published
values. Texts are drawn with common random numbers, so the search is smooth.
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np

from apm_lab.data.pool import PRINCIPLES, slug, styled_messages
from apm_lab.data.prompts import read_prompts
from apm_lab.language.protocols import GenerationCall
from apm_lab.language.simulated import constants
from apm_lab.language.simulated.judge import read_styles
from apm_lab.language.simulated.responder import SimulatedResponder
from apm_lab.records import Message, Style

PUBLISHED = {  # APM Table 1, routing (oracle), one attribute: W/L, its s.d., Delta, its s.d.
    "simulated_qwen27b": (2.88, 0.27, 1.93, 0.18),
    "simulated_llama8b": (1.64, 0.15, 1.00, 0.13),
}


@dataclass(frozen=True)
class Cell:
    """Oracle figures: W/L, Delta, and the share of ties."""

    wl: float
    delta: float
    ties: float


def committed() -> dict[str, tuple[float, float]]:
    """Return the values in conf/model, read as plain YAML."""
    import yaml

    from apm_lab.experiment.config_folder import config_folder

    values = {}
    for name in PUBLISHED:
        preset = yaml.safe_load((config_folder() / "model" / f"{name}.yaml").read_text())
        values[name] = (preset["compliance"], preset["noise"])
    return values


def oracle(name: str, compliance: float, noise: float, prompts: list[str]) -> Cell:
    """Return the oracle's cell over one neutral response and all 2M styled ones per prompt."""
    model = SimulatedResponder(name, compliance, noise)
    rng = np.random.default_rng(7)
    order = [list(constants.load_yaml("lexicon.yaml")).index(slug(principle)) for principle in PRINCIPLES]
    differences = []
    for number, prompt in enumerate(prompts, 1):
        styles = [None, *(Style.of(s) for s in range(2 * len(PRINCIPLES)))]
        calls = [GenerationCall(styled_messages(PRINCIPLES, "system", prompt, style), number) for style in styles]
        readings = np.array([read_styles(text) for text in model.generate(calls)])[:, order]
        scores = np.floor(readings + rng.random(readings.shape))
        for s, style in enumerate(styles[1:], 1):
            differences.append(style.direction * (scores[s, style.principle] - scores[0, style.principle]))
    d = np.array(differences)
    return Cell((d > 0).sum() / max(1, (d < 0).sum()), float(d.mean()), float((d == 0).mean()))


def fit(name: str, prompts: list[str]) -> tuple[float, float]:
    """Return (compliance, noise) that hit the published W/L and Delta, by bisection over the noise.

    At equal Delta, W/L falls as noise grows, so for every noise the compliance is matched to Delta first.
    """
    wl, _, delta, _ = PUBLISHED[name]
    low, high, compliance = 0.0, 5.0, 0.5
    for _ in range(7):
        noise = (low + high) / 2
        for _ in range(3):
            cell = oracle(name, compliance, noise, prompts)
            compliance = min(1.0, compliance * delta / cell.delta)
        print(
            f"  noise {noise:.3f} compliance {compliance:.3f}: W/L {cell.wl:.3f} Delta {cell.delta:.3f}",
            flush=True,
        )
        low, high = (noise, high) if cell.wl > wl else (low, noise)
    return round(compliance, 3), round(noise, 2)


def show(name: str, compliance: float, noise: float, prompts: list[str]) -> Cell:
    """Print fitted and published cells side by side and return the fitted one."""
    wl, sd_wl, delta, sd_delta = PUBLISHED[name]
    cell = oracle(name, compliance, noise, prompts)
    within = abs(cell.wl - wl) <= sd_wl and abs(cell.delta - delta) <= sd_delta
    print(
        f"{name}: compliance={compliance} noise={noise}"
        f"  W/L {cell.wl:.2f} (published {wl} +- {sd_wl})"
        f"  Delta {cell.delta:+.2f} (published {delta:+.2f} +- {sd_delta})  ties {cell.ties:.2f}  "
        f"{'within its printed s.d.' if within else 'OUTSIDE its printed s.d.'}"
    )
    return cell


def neutral_levels(prompts: list[str]) -> None:
    """Print Table 8's means and spreads beside what the judge reads off neutral responses."""
    model = SimulatedResponder("simulated_qwen27b", *committed()["simulated_qwen27b"])
    texts = model.generate([GenerationCall((Message("user", prompt),), i) for i, prompt in enumerate(prompts, 1)])
    readings = np.array([read_styles(text) for text in texts])
    names = list(constants.load_yaml("lexicon.yaml"))
    print("\nprinciple                        Table 8        as judged (neutral responses)")
    for name, base in ((n, constants.constant("base")[n]) for n in map(slug, PRINCIPLES)):
        column = readings[:, names.index(name)]
        print(f"{name:32s} {base['mean']:.2f} +- {base['sd']:.2f}   {column.mean():.2f} +- {column.std(ddof=1):.2f}")


def main() -> None:
    """Fit or check, and print; the last line is `ratio=...`: fitted over published Delta, the worse of the presets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    prompts = [prompt.text for prompt in read_prompts()][: 100 if quick else 640]
    ratios = []
    for name in PUBLISHED:
        values = committed()[name] if quick else fit(name, prompts)
        cell = show(name, *values, prompts)
        ratios.append(cell.delta / PUBLISHED[name][2])
    neutral_levels(prompts)
    worst = max(ratios, key=lambda ratio: abs(math.log(ratio)))
    print(
        f"ratio={worst:.3f} " + " ".join(f"{name}={ratio:.3f}" for name, ratio in zip(PUBLISHED, ratios, strict=True))
    )


if __name__ == "__main__":
    main()
