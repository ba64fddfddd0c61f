"""A reward model with a memory: what the store holds is not computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import isfinite

from apm_lab.data.store import KEY_BYTES, Keeping
from apm_lab.errors import DataError
from apm_lab.language.recall import CallCounts
from apm_lab.language.reward_model import ComparesAnswers, RewardCall, RewardModel

__all__ = ["Rewards", "StoredRewards"]

Rewards = tuple[float | None, ...]
"""One number per answer of a call; None where the model gave none that is finite."""


class StoredRewards:
    """Takes rewards from the shelf, and asks the model only for those that are missing.

    An answer is asked for once, in whatever calls it stands; where the model compares answers, with all answers of its
    call.

    Args:
        model: the reward model.
        shelf: where rewards are kept.
        counts: `asked`, `made` and `blank` count rewards, the last those that were not finite.

    """

    def __init__(self, model: RewardModel, shelf: Keeping[float], counts: CallCounts) -> None:
        self.model, self._shelf, self._counts = model, shelf, counts
        self._compares = isinstance(model, ComparesAnswers) and model.compares_answers

    @property
    def key_header(self) -> tuple[str, ...]:
        """What all keys begin with; asked for late, since a model that is not fetched yet has no identity."""
        return "reward", self.model.identity, self.model.engine, self.model.sampling

    def keys(self, calls: Sequence[RewardCall]) -> list[list[bytes]]:
        """Return the store key of each answer of each call: method, study and run are not in them."""
        prefix = blake2b("\x1f".join(self.key_header).encode(), digest_size=KEY_BYTES)
        found = []
        for call in calls:
            begun = prefix.copy()
            # With its length before it, no text can pass for the end of one and the start of another.
            for text in (call.prompt, *(call.answers if self._compares else ())):
                begun.update(f"\x1e{len(text)}\x1f{text}".encode("utf-8", "surrogatepass"))
            keys = []
            for answer in call.answers:
                digest = begun.copy()
                digest.update(f"\x1d{answer}".encode("utf-8", "surrogatepass"))
                keys.append(digest.digest())
            found.append(keys)
        return found

    def held(self, keys: Sequence[bytes]) -> dict[bytes, float]:
        """Return the rewards among these keys that are stored."""
        return self._shelf.of(self.key_header, self._counts).get(list(dict.fromkeys(keys)))

    def missing(self, calls: Sequence[RewardCall]) -> list[RewardCall]:
        """Return what the model would be asked for these calls: each answer that is not stored, once."""
        keys = self.keys(calls)
        stored = self._shelf.of(self.key_header).get(list(dict.fromkeys(key for each in keys for key in each)))
        return [call for call, _ in self._left(calls, keys, stored)]

    def rewards(self, calls: Sequence[RewardCall], progress: Callable[[int, int], None] | None = None) -> list[Rewards]:
        """Return the rewards of each call's answers, in order; each group is kept when it comes.

        `progress(done, total)` is told how many of the model's own calls are answered. Raises DataError naming the
        model where it gives another number of rewards than answers, or leaves calls unanswered.
        """
        keys = self.keys(calls)
        shelf = self._shelf.of(self.key_header, self._counts)
        found = shelf.get(list(dict.fromkeys(key for each in keys for key in each)))
        self._counts.asked += sum(map(len, keys))
        left = self._left(calls, keys, found)
        if left:
            fresh = [key for _, each in left for key in each]
            for rows in self._made(left, progress):
                shelf.put(rows.items())
                found |= rows
            # Read back: when another job wrote the same key first, its reward is the one that counts.
            found |= shelf.settled(fresh)
        return [tuple(found.get(key) for key in each) for each in keys]

    def _left(
        self, calls: Sequence[RewardCall], keys: Sequence[Sequence[bytes]], stored: Mapping[bytes, float]
    ) -> list[tuple[RewardCall, list[bytes]]]:
        """Return the calls to make, with the key of each of their answers."""
        left, taken = [], set[bytes]()
        for call, each in zip(calls, keys, strict=True):
            new = {key: answer for key, answer in zip(each, call.answers, strict=True) if key not in stored}
            new = {key: answer for key, answer in new.items() if key not in taken}
            if not new:
                continue
            taken.update(new)
            if self._compares:
                left.append((call, list(each)))
            else:
                left.append((RewardCall(call.prompt, tuple(new.values())), list(new)))
        return left

    def _made(
        self, left: Sequence[tuple[RewardCall, list[bytes]]], progress: Callable[[int, int], None] | None
    ) -> Iterator[dict[bytes, float]]:
        """Yield the finite rewards that the model gives, by key, as they come."""
        waiting = dict(enumerate(left))
        name = self.model.identity
        for group in self.model.rewards([call for call, _ in left]):
            rows: dict[bytes, float] = {}
            for answer in group:
                if answer.place not in waiting:
                    raise DataError(f"reward model {name} answered call {answer.place} twice, or was not asked it")
                call, keys = waiting.pop(answer.place)
                if len(answer.value) != len(keys):
                    raise DataError(
                        f"reward model {name} gave {len(answer.value)} rewards for {len(keys)} answers to "
                        f"{call.prompt!r:.60}"
                    )
                self._counts.spend(answer.usage)
                try:
                    sound = {
                        key: float(value) for key, value in zip(keys, answer.value, strict=True) if isfinite(value)
                    }
                except TypeError:
                    raise DataError(
                        f"reward model {name} gave {answer.value!r:.60} for {call.prompt!r:.60}: expected numbers, NaN "
                        "where there is none"
                    ) from None
                self._counts.made += len(set(keys))
                self._counts.blank += len(set(keys)) - len(sound)
                rows |= sound
            yield rows
            if progress is not None:
                progress(len(left) - len(waiting), len(left))
        if waiting:
            raise DataError(f"reward model {name} left {len(waiting)} of {len(left)} calls unanswered")
