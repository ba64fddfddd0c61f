"""What an evaluation of a given size can find, and the simulation that the two-way interval is held by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.maths.inference import mean_interval
from apm_lab.maths.seeding import stream

__all__ = ["REFERENCES", "Coverage", "minimum_detectable_delta", "simulate_coverage"]

REFERENCES = ("normal", "t")


def minimum_detectable_delta(
    users: int,
    draws: int,
    sd_user: float = 3.0,
    sd_draw: float = 0.25,
    power: float = 0.8,
    alpha: float = 0.05,
    reference: str = "normal",
) -> float:
    """Return the Delta (score points) that a two-sided test at `alpha` finds with probability `power`.

    SE^2 = sd_draw^2 / D + sd_user^2 / (U D): `sd_draw` is the between-draw s.d. of the true Delta, `sd_user` the s.d.
    of one user's difference, taken as independent between draws. `normal`: (z(1 - alpha/2) + z(power)) SE. `t`: a
    t-test on the D draw means (D >= 2), exactly: the noncentrality at which t(D-1) passes its critical value with that
    power. Rejections on the wrong side count as no finding. The interval of `mean_interval` is wider than either
    reference, so that it needs somewhat more.

    ConfigError for a value out of range or another reference.
    """
    _check_power(users, draws, power, alpha, reference)
    if min(sd_user, sd_draw) < 0 or not math.isfinite(sd_user + sd_draw):
        raise ConfigError(f"sd_user={sd_user}, sd_draw={sd_draw}: expected finite numbers, 0 or more")
    error = math.sqrt(sd_draw**2 / draws + sd_user**2 / (users * draws))
    return _shift(draws, power, alpha, reference) * error


def _shift(draws: int, power: float, alpha: float, reference: str) -> float:
    from scipy import special

    if reference == "normal":
        return float(special.ndtri(1 - alpha / 2) + special.ndtri(power))
    critical = special.stdtrit(draws - 1, 1 - alpha / 2)
    return float(special.nctdtrinc(draws - 1, 1 - power, critical))


def _check_power(users: int, draws: int, power: float, alpha: float, reference: str) -> None:
    if reference not in REFERENCES:
        raise ConfigError(f"reference={reference}: no such reference{did_you_mean(str(reference), REFERENCES)}")
    if users < 1:
        raise ConfigError(f"users={users}: expected at least 1")
    fewest = 2 if reference == "t" else 1
    if draws < fewest:
        raise ConfigError(f"draws={draws}: expected at least {fewest} for reference={reference}")
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha={alpha}: expected a number between 0 and 1")
    if not alpha < power < 1:
        raise ConfigError(f"power={power}: expected a number between alpha={alpha} and 1")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often `mean_interval` holds the truth: shares `at_95` and `at_999`, and `width`, in true standard errors.

    `width` is the median half width at 95% over the true s.d. of the estimate.
    """

    blocks: int
    sd_draw: float
    shared: bool
    repetitions: int
    at_95: float
    at_999: float
    width: float


def simulate_coverage(
    blocks: int,
    sd_draw: float,
    shared: bool,
    repetitions: int,
    seed: int | str,
    users: int = 1000,
    sd_user: float = 3.0,
) -> Coverage:
    """Return the coverage of `mean_interval` over `repetitions` simulated evaluations whose true Delta is 0.

    A value is a normal draw effect (s.d. `sd_draw`) plus normal user noise (s.d. `sd_user`), the same in all draws if
    `shared`, else new in each; every draw is a block. SPEC 1 asks for at least .94 at 95% and .995 at 99.9% with 3, 4
    and 10 blocks, `sd_draw` 0 and .25, and a width of at most 3 with 10 blocks.
    """
    rng = stream(seed, "coverage", blocks, float(sd_draw), shared)
    known, block = np.ones((blocks, users), dtype=np.bool_), np.arange(blocks)
    held, halves = np.zeros(2), np.empty(repetitions)
    for r in range(repetitions):
        noise = rng.standard_normal((1 if shared else blocks, users))
        values = sd_draw * rng.standard_normal((blocks, 1)) + sd_user * noise
        usual, strict = (mean_interval(values, known, block, level) for level in (0.95, 0.999))
        held += [usual.low <= 0 <= usual.high, strict.low <= 0 <= strict.high]
        halves[r] = (usual.high - usual.low) / 2
    truth = math.sqrt(sd_draw**2 / blocks + sd_user**2 / (users if shared else users * blocks))
    at_95, at_999 = (held / repetitions).tolist()
    return Coverage(blocks, sd_draw, shared, repetitions, at_95, at_999, float(np.median(halves)) / truth)
