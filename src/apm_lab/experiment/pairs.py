"""`python -m apm_lab pairs export FILE`: the training users' preference pairs in a file that trainers read."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from apm_lab.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from apm_lab.experiment.job import Job
    from apm_lab.studies.training_pairs import DrawPairs, WrittenPair

__all__ = ["FORMATS", "PairExport", "export_pairs", "read_request"]

_KINDS = (".jsonl", ".jsonl.gz")
_USAGE = "pairs export FILE.jsonl [format=trl] [draw=0] [OVERRIDE ..]"

Line = dict[str, Any]


def _trl(pair: WrittenPair) -> Line:
    return {
        "prompt": [{"role": "user", "content": pair.prompt}],
        "chosen": [{"role": "assistant", "content": pair.chosen}],
        "rejected": [{"role": "assistant", "content": pair.rejected}],
    }


def _axolotl(pair: WrittenPair) -> Line:
    return {
        "messages": [{"role": "user", "content": pair.prompt}],
        "chosen": {"role": "assistant", "content": pair.chosen},
        "rejected": {"role": "assistant", "content": pair.rejected},
    }


def _llama_factory(pair: WrittenPair) -> Line:
    return {
        "conversations": [{"from": "human", "value": pair.prompt}],
        "chosen": {"from": "gpt", "value": pair.chosen},
        "rejected": {"from": "gpt", "value": pair.rejected},
    }


FORMATS: dict[str, Callable[[WrittenPair], Line]] = {"trl": _trl, "axolotl": _axolotl, "llama_factory": _llama_factory}
"""What a pair's texts look like to each reader that `format` names."""


@dataclass(frozen=True, slots=True)
class PairExport:
    """What is wanted: the file, its form, and the mapping draw (None: all of them)."""

    file: Path
    form: str = "trl"
    draw: int | None = 0


def read_request(words: Sequence[str]) -> tuple[PairExport, list[str]]:
    """Return what `pairs ...` asks for, and the overrides left for the configuration; ConfigError for other words."""
    if not words or words[0] != "export":
        raise ConfigError(f"{' '.join(['pairs', *words[:1]])}: expected {_USAGE}")
    if len(words) < 2 or words[1].startswith("-") or "=" in words[1] or not words[1].endswith(_KINDS):
        raise ConfigError(f"pairs export needs a file that ends in {' or '.join(_KINDS)}: {_USAGE}")
    rest = list(words[2:])
    if {"-m", "--multirun"} & set(rest):
        raise ConfigError("pairs export writes one file; leave out -m (draw=all writes every mapping draw into it)")
    form, draw = _taken(rest, "format", "trl"), _taken(rest, "draw", "0")
    if form not in FORMATS:
        raise ConfigError(f"format={form}: no such format{did_you_mean(form, FORMATS)}")
    if form == "llama_factory" and words[1].endswith(".gz"):
        raise ConfigError(f"{words[1]}: LLaMA-Factory tells files by their ending and reads no .gz; take .jsonl")
    if draw != "all" and not (draw.isascii() and draw.isdigit()):
        raise ConfigError(f"draw={draw}: expected the number of a mapping draw, or all")
    return PairExport(Path(words[1]), form, None if draw == "all" else int(draw)), rest


def _taken(words: list[str], key: str, default: str) -> str:
    """Take `key=value` out of the words and return the value; the last one counts."""
    given = [word for word in words if word.startswith(f"{key}=")]
    words[:] = [word for word in words if word not in given]
    return given[-1].partition("=")[2] if given else default


def export_pairs(job: Job, request: PairExport, console: Console) -> None:
    """Write the pairs, a line each, and print how many there are and how many prompts gave none.

    The file appears whole or not at all. ConfigError for what the configuration or the request has wrong, DataError
    where the file can't be written.
    """
    from apm_lab.data.store import Store
    from apm_lab.experiment.build import build_personalization, read_data
    from apm_lab.experiment.build_method import baseline_node, roles_of
    from apm_lab.experiment.preflight import require_sound
    from apm_lab.experiment.progress import StageProgress
    from apm_lab.experiment.run_folder import RunFolder
    from apm_lab.experiment.schema import completed
    from apm_lab.experiment.spending import Spending
    from apm_lab.experiment.study_groups import require_benchmark
    from apm_lab.judging.health import measure_health, require_health
    from apm_lab.language.recall import CallCounts
    from apm_lab.studies.training_pairs import training_pairs

    config = completed(job.config)
    require_benchmark(config, "pairs export")
    require_sound(config)
    if config["plan"]:
        raise ConfigError("pairs export has no plan; plan=true without the verb counts the same training candidates")
    draws = _draws(request, config["mapping"]["draws"])
    _require_writable(request.file)
    counts, store = {role: CallCounts() for role in roles_of(config)}, Store(**config["store"])
    try:
        with (
            tempfile.TemporaryDirectory() as spent,  # a budget holds for this one command
            StageProgress(console if console.is_terminal else None, counts) as progress,
        ):
            study = build_personalization(
                config,
                job.method,
                baseline_node(config, job.choices, job.folders),
                read_data(config),
                store,
                counts,
                log=None,
                checkpoint=None,
                guard=Spending(config, RunFolder(Path(spent))).guard,
            )
            require_health(measure_health(study.judge), study.allow_unhealthy)
            told = _write(request, training_pairs(study, draws, progress))
    finally:
        store.close()
    console.print(told, soft_wrap=True, markup=False)


def _draws(request: PairExport, count: int) -> list[int]:
    if request.draw is None:
        return list(range(count))
    if request.draw >= count:
        raise ConfigError(f"draw={request.draw}: mapping.draws={count}, so the draws are 0 to {count - 1}")
    return [request.draw]


def _require_writable(file: Path) -> None:
    """Raise DataError where the file can't be written, before anything is generated for it."""
    draft = _draft(file)
    try:
        if file.is_dir():
            raise DataError(f"{file} can't be written: it is a folder")
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.touch()
        draft.unlink()
    except OSError as fault:
        raise DataError(f"{file} can't be written: {fault.strerror or fault}") from fault


def _draft(file: Path) -> Path:
    return file.with_name(f".{file.name}.{os.getpid()}.draft")


def _write(request: PairExport, found: Iterable[DrawPairs]) -> str:
    """Write the pairs of all draws and return what to say of them; an earlier file of that name is replaced."""
    draft, form = _draft(request.file), FORMATS[request.form]
    opened = gzip.open if request.file.name.endswith(".gz") else open
    count, dropped, blank, draws = 0, 0, 0, []
    try:
        with cast(IO[str], opened(draft, "wt", encoding="utf-8")) as handle:
            for part in found:
                lines = ({**form(pair), **_metadata(pair, part.draw)} for pair in part.pairs)
                handle.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
                count, dropped, blank = count + len(part.pairs), dropped + part.dropped, blank + part.blank
                draws.append(part.draw)
        if not count:
            raise DataError(f"{request.file} is not written: no prompt has two answers that are rated differently")
        draft.replace(request.file)
    except OSError as fault:
        raise DataError(f"{request.file} can't be written: {fault.strerror or fault}") from fault
    finally:
        draft.unlink(missing_ok=True)
    where = f"draw {draws[0]}" if len(draws) == 1 else f"draws {draws[0]} to {draws[-1]}"
    lacking = f", {blank} without a text" if blank else ""
    left_out = f"left out: {dropped} prompts whose best and worst rating are equal or unknown{lacking}"
    return f"{request.file}: {count} pairs of {where}, format={request.form}; {left_out}"


def _metadata(pair: WrittenPair, draw: int) -> Line:
    """Return what stands beside the texts. It is not called `margin`: TRL's reward trainer puts that into its loss."""
    return {
        "user": pair.user,
        "draw": draw,
        "turn": pair.turn,
        "chosen_style": pair.chosen_style,
        "rejected_style": pair.rejected_style,
        "chosen_rating": pair.chosen_rating,
        "rejected_rating": pair.rejected_rating,
        "rating_margin": pair.chosen_rating - pair.rejected_rating,
    }
