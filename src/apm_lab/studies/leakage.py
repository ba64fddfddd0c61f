"""Two proofs that a method sees no hidden thing, for our methods and for anyone's plug-in (SPEC 1, "Methods")."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apm_lab.methods.protocols import Method
from apm_lab.records import Response
from apm_lab.studies.evaluation import Evaluation
from apm_lab.studies.world import TestSide, TrainSide

__all__ = ["changed_responses", "hidden_arrays", "leaks", "reachable_secrets"]

_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, np.generic)


def leaks(evaluation: Evaluation, name: str, method: Method, draw: int = 0) -> list[str]:
    """Return in words what shows or could show `method` a hidden thing in one mapping draw: [] is clean.

    Both proofs: what is overwritten behind the views' backs must change no response, and a walk from the views and the
    method after `fit` and `respond` must meet no hidden object. ValueError where nothing was built to train on.
    """
    found = []
    changed = changed_responses(evaluation, draw, method)
    if changed:
        found.append(f"{changed} of {len(evaluation.test.users)} responses change when hidden arrays are overwritten")
    assert evaluation.train is not None  # else `changed_responses` has raised
    train, test = evaluation.train_view(draw, evaluation.train, name), evaluation.test_view(draw)
    method.fit(train)
    method.respond(test)
    roots = {"train view": train, "test view": test, f"method {name}": method}
    return found + [f"reachable: {path}" for path in reachable_secrets(evaluation, roots)]


def hidden_arrays(evaluation: Evaluation) -> dict[str, NDArray[Any]]:
    """Return every array that no method may see, by name: attributes, mappings, preferences, scores."""
    arrays: dict[str, NDArray[Any]] = {"mappings": evaluation.mappings, "preferences": evaluation.weights}
    for name, side in _sides(evaluation).items():
        arrays[f"{name} attributes"] = side.users.attributes
        arrays[f"{name} scores"] = side.scores[0]
        arrays[f"{name} judged entries"] = side.scores[1]  # which principles a user's draws weigh
    return arrays


def changed_responses(evaluation: Evaluation, draw: int, method: Method) -> int:
    """Return how many responses change when every hidden array is overwritten once the views are built: 0 is clean.

    The arrays have their values back when this returns.
    """
    name = "leak check"
    before = _respond(evaluation, draw, method, name, poison=False)
    after = _respond(evaluation, draw, method, name, poison=True)
    return sum(old != new for old, new in zip(before, after, strict=True)) + abs(len(before) - len(after))


def _respond(evaluation: Evaluation, draw: int, method: Method, name: str, *, poison: bool) -> Sequence[Response]:
    if evaluation.train is None:
        raise ValueError("the evaluation has no training users; a leak check needs some")
    train, test = evaluation.train_view(draw, evaluation.train, name), evaluation.test_view(draw)
    kept = {key: array.copy() for key, array in hidden_arrays(evaluation).items()}
    rng = np.random.default_rng(0)
    try:
        if poison:
            for array in hidden_arrays(evaluation).values():
                array[...] = rng.permutation(array.ravel()).reshape(array.shape)[::-1]
        method.fit(train)
        return list(method.respond(test))
    finally:
        for key, array in hidden_arrays(evaluation).items():
            array[...] = kept[key]


def reachable_secrets(evaluation: Evaluation, roots: Mapping[str, object]) -> list[str]:
    """Return the paths on which a hidden object is met when walking from `roots` (views, method, trainer): [] is clean.

    Follows attributes, slots, containers, closures, defaults, bound methods, partials, array bases and suspended
    generators; not classes, modules or a function's globals. Arrays and the attribute pool are known by value too,
    so that a copy is found.
    """
    secrets, arrays = _hidden_objects(evaluation), hidden_arrays(evaluation)
    found: list[str] = []
    queue: deque[tuple[str, object]] = deque(roots.items())
    seen: set[int] = set()
    alive: list[object] = []  # keeps what was met from being collected, so that an id is not met twice
    while queue:
        path, thing = queue.popleft()
        if isinstance(thing, _PLAIN) or id(thing) in seen:
            continue
        seen.add(id(thing))
        alive.append(thing)
        name = _named(thing, secrets, arrays, tuple(evaluation.test.pool.attributes))
        if name:
            found.append(f"{path}: {name}")
        else:
            queue.extend((f"{path}{step}", part) for step, part in _parts(thing))
    return found


def _sides(evaluation: Evaluation) -> dict[str, TrainSide | TestSide]:
    sides = {
        "train": evaluation.train,
        "validation": evaluation.validation,
        "test": evaluation.test,
        "validation answers": evaluation.validation_answers,
    }
    return {name: side for name, side in sides.items() if side is not None}


def _hidden_objects(evaluation: Evaluation) -> dict[int, str]:
    objects: dict[int, str] = {id(evaluation): "the evaluation", id(evaluation.test.pool): "the attribute pool"}
    for name, side in _sides(evaluation).items():
        objects |= {id(side): f"the {name} side", id(side.users): f"the {name} users"}
    return objects


def _named(
    thing: object, secrets: Mapping[int, str], arrays: Mapping[str, NDArray[Any]], pool: tuple[str, ...]
) -> str | None:
    if id(thing) in secrets:
        return secrets[id(thing)]
    if isinstance(thing, list | tuple) and all(isinstance(part, str) for part in thing) and tuple(thing) == pool:
        return "the attribute pool"
    if isinstance(thing, np.ndarray):
        for name, array in arrays.items():
            parts = [array, *array] if name in ("mappings", "preferences") else [array]  # one draw's share tells too
            if any(thing is part or np.shares_memory(thing, part) or _equal(thing, part) for part in parts):
                return name
    return None


def _equal(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.size > 1 and one.shape == other.shape and one.dtype.kind in "iufb" and bool((one == other).all())


def _parts(thing: object) -> Iterator[tuple[str, object]]:
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in thing.items())
        yield from (("<key>", key) for key in thing)
    elif isinstance(thing, list | tuple | set | frozenset | deque):
        yield from ((f"[{place}]", part) for place, part in enumerate(thing))
    if isinstance(thing, np.ndarray) and thing.base is not None:
        yield ".base", thing.base
    if isinstance(thing, np.ndarray) and thing.dtype.hasobject:
        yield from ((f"[{place}]", part) for place, part in enumerate(thing.ravel().tolist()))
    if isinstance(thing, types.FunctionType):
        yield from ((f".<closure {place}>", cell.cell_contents) for place, cell in enumerate(thing.__closure__ or ()))
        yield from ((f".<default {place}>", value) for place, value in enumerate(thing.__defaults__ or ()))
        yield from (thing.__kwdefaults__ or {}).items()
    if isinstance(thing, types.MethodType):
        yield from ((".__self__", thing.__self__), (".__func__", thing.__func__))
    if isinstance(thing, functools.partial):
        yield from ((".func", thing.func), (".args", thing.args), (".keywords", thing.keywords))
    if isinstance(thing, types.GeneratorType) and thing.gi_frame is not None:
        yield ".<locals>", dict(thing.gi_frame.f_locals)
    yield from ((f".{key}", value) for key, value in getattr(thing, "__dict__", {}).items())
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, slot):
                yield f".{slot}", getattr(thing, slot)
