"""Draws of the hidden mapping C from attributes to principles, their designs, and the check of the theorems' premises.

`M` response principles, `N` user attributes, `D` draws. A mapping is an (M, N) array; APM Eq. 1 is `p_u = C a_u`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from apm_lab.errors import ConfigError, did_you_mean
from apm_lab.maths.seeding import stream
from apm_lab.maths.symmetry import asymmetry

__all__ = ["DESIGNS", "Gaussian", "MappingKind", "Mappings", "SignedPermutation", "check_mapping", "draw_mappings"]

Array = NDArray[np.float64]

_LOOKS = 20

DESIGNS = ("independent", "antithetic", "latin")


class MappingKind(Protocol):
    """How C is drawn: anything with this `sample`. A kind of the user's own is held to `check_mapping`."""

    def sample(self, rng: np.random.Generator, M: int, N: int) -> Array:
        """Return one (M, N) draw of C that depends on nothing but `rng`."""
        ...


@dataclass(frozen=True)
class SignedPermutation:
    """Each attribute meets one principle of its own, with a random sign (the default; APM Sec. 5).

    An injection of the N attributes into the M >= N principles, uniform over all of them, times N independent fair
    signs, so that -C is as likely as C; principles that no attribute meets have a zero row. For N = M: `C C^T = I` and
    `Var C_ji = 1/N`.
    """

    def sample(self, rng: np.random.Generator, M: int, N: int) -> Array:
        """Return one (M, N) draw; ConfigError if N > M."""
        _check_sizes(M, N)
        _check_injective(M, N)
        C = np.zeros((M, N))
        C[rng.permutation(M)[:N], np.arange(N)] = _signs(rng, N)
        return C


@dataclass(frozen=True)
class Gaussian:
    """Every entry is drawn from N(0, 1), independently (APM Fig. 5)."""

    def sample(self, rng: np.random.Generator, M: int, N: int) -> Array:
        """Return one (M, N) draw."""
        _check_sizes(M, N)
        return rng.standard_normal((M, N))


@dataclass(frozen=True, eq=False)
class Mappings:
    """The draws of one evaluation: `matrices` (D, M, N) and for each draw the number of its block, `blocks` (D,).

    A block is what the intervals count as one draw: a draw, an antithetic pair, or a whole Latin square.
    """

    matrices: Array
    blocks: NDArray[np.int64]


def draw_mappings(kind: MappingKind, design: str, draws: int, M: int, N: int, seed: int | str) -> Mappings:
    """Return `draws` mappings in the given design; a draw stays the same when more of them are asked for.

    Designs (SPEC 1, "Mappings"; Theorem 1 holds exactly within every block of the last two):
    `independent`: every draw from a stream of its own, a block each (the paper's);
    `antithetic`: pairs C, -C side by side, a block each; `draws` is even;
    `latin`: blocks of 2 max(N, M) draws, the signed shifts of one random permutation, each with its negative beside
    it: every attribute meets every principle once with each sign, and each single draw is a uniform signed
    permutation; only for `SignedPermutation`.

    Raises ConfigError for an unknown design, for a number of draws that the design can't have (the nearest
    ones are named), for N > M with a signed permutation and for a draw that isn't a finite (M, N) matrix. The
    premises of the theorems are checked by `check_mapping`, not here.
    """
    _check_sizes(M, N)
    if design not in DESIGNS:
        raise ConfigError(f"mapping.design={design}: no such design{did_you_mean(str(design), DESIGNS)}")
    if design == "latin" and type(kind) is not SignedPermutation:
        raise ConfigError(
            f"mapping.design=latin shifts a signed permutation and {_name(kind)} is none; expected "
            "mapping=signed_permutation, or mapping.design=antithetic"
        )
    size = {"independent": 1, "antithetic": 2, "latin": 2 * max(N, M)}[design]
    _check_draws(design, draws, size)
    blocks = [_block(kind, design, M, N, stream(seed, "mapping", design, b)) for b in range(draws // size)]
    return Mappings(np.concatenate(blocks), np.repeat(np.arange(draws // size), size))


def _block(kind: MappingKind, design: str, M: int, N: int, rng: np.random.Generator) -> Array:
    if design == "latin":
        half = _signed_shifts(rng, M, N)
    else:
        half = _sampled(kind, rng, M, N)[None]
        if design == "independent":
            return half
    # 0 - C and not -C, which would turn zeros into negative zeros
    return np.stack([half, 0.0 - half], axis=1).reshape(-1, M, N)


def _signed_shifts(rng: np.random.Generator, M: int, N: int) -> Array:
    """Return (M, M, N): for each shift s, attribute i at principle `order[(i + s) mod M]` with a fair sign."""
    _check_injective(M, N)
    order = rng.permutation(M)
    shift, attribute = np.meshgrid(np.arange(M), np.arange(N), indexing="ij")
    C = np.zeros((M, M, N))
    C[shift, order[(attribute + shift) % M], attribute] = _signs(rng, (M, N))
    return C


def check_mapping(kind: MappingKind, M: int, N: int, rng: np.random.Generator, samples: int = 4000) -> None:
    """Return nothing if draws of `kind` have `E[C] = 0` entrywise and `C a ~ -C a`: premises of APM Theorems 1 and 2.

    The built-in kinds have both by construction and are only held to the sizes. A kind of the user's own is sampled and
    tested as in `symmetry`; one that has both is refused with a probability below 1e-3.

    Raises ConfigError that names the failing entry or vector, its value and what was expected, also for draws that
    aren't finite (M, N) matrices.
    """
    _check_sizes(M, N)
    if type(kind) in (SignedPermutation, Gaussian):
        _sampled(kind, rng, M, N)
        return
    if samples < 100:
        raise ConfigError(f"check_mapping: samples={samples}, expected at least 100")
    seed = int(rng.integers(2**63))
    first, second = (_sampled(kind, np.random.default_rng(seed), M, N) for _ in range(2))
    if not (first == second).all():
        raise ConfigError(f"mapping {_name(kind)}: the same generator gave two draws; take every number from `rng`")
    if not any(_sampled(kind, rng, M, N).any() for _ in range(_LOOKS)):
        raise ConfigError(f"mapping {_name(kind)}: every draw is all zeros; no user would prefer anything")
    fault = asymmetry(lambda: _sampled(kind, rng, M, N), rng, samples)
    if fault:
        raise ConfigError(f"mapping {_name(kind)}: {fault}")


def _sampled(kind: MappingKind, rng: np.random.Generator, M: int, N: int) -> Array:
    drawn: Any = kind.sample(rng, M, N)
    try:
        C = np.asarray(drawn, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"mapping {_name(kind)}: a draw isn't an array of numbers: {drawn!r:.80}") from error
    if C.shape != (M, N):
        raise ConfigError(f"mapping {_name(kind)}: a draw has shape {C.shape}, expected (M, N) = {(M, N)}")
    if not np.isfinite(C).all():
        j, i = np.argwhere(~np.isfinite(C))[0]
        raise ConfigError(
            f"mapping {_name(kind)}: entry (principle {j}, attribute {i}) is {C[j, i]}, expected a finite number"
        )
    return C


def _signs(rng: np.random.Generator, shape: int | tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _check_sizes(M: int, N: int) -> None:
    for key, symbol, value in (("pool.principles", "M", M), ("pool.attributes", "N", N)):
        if value < 1:
            raise ConfigError(f"{key}={value} ({symbol}): expected at least 1")


def _check_injective(M: int, N: int) -> None:
    if N > M:
        raise ConfigError(
            f"a signed permutation needs as many principles as attributes: pool.attributes={N} (N) is more than "
            f"pool.principles={M} (M); expected N <= M, or mapping=gaussian"
        )


def _check_draws(design: str, draws: int, size: int) -> None:
    if draws < 1 or draws % size:
        fits = sorted({max(size, draws // size * size), max(size, (draws // size + 1) * size)})
        expected = "at least 1" if size == 1 else f"a multiple of {size}"
        raise ConfigError(
            f"mapping.draws={draws} with mapping.design={design}: expected {expected}; "
            f"nearest: {' or '.join(map(str, fits))}"
        )


def _name(kind: object) -> str:
    return type(kind).__name__
