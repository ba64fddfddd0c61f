"""`python -m apm_lab store list|verify|export|prune`: what is stored, whether it is sound, out of it, and away."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from apm_lab.data.store import Store
from apm_lab.data.store_upkeep import FIELDS, Source, check, prune, rows_of, shards_of, sources_of
from apm_lab.errors import ConfigError, StoreError, did_you_mean

__all__ = ["store_verb"]

_PATH = "outputs/store"
_KINDS = (".jsonl", ".jsonl.gz", ".parquet")


def store_verb(words: Sequence[str]) -> None:
    """Do what `store ...` asks for; the first word may be left out (`list`), and a bare path is the store's.

    ConfigError for words that make no sense, StoreError where something is damaged.
    """
    verbs: dict[str, Callable[[Path, str | None, dict[str, str], bool], None]] = {
        "list": _list,
        "verify": _verify,
        "export": _export,
        "prune": _prune,
    }
    rest = list(words)
    name = rest.pop(0) if rest and "=" not in rest[0] and rest[0] in verbs else "list"
    yes = "--yes" in rest
    given = [word for word in rest if word != "--yes"]
    settings = dict(_setting(word) for word in given if "=" in word and not Path(word).exists())
    bare = [word for word in given if "=" not in word or Path(word).exists()]
    if name in ("list", "verify") and bare and not Path(bare[0]).exists():
        raise ConfigError(f"there is no store at {bare[0]}{did_you_mean(bare[0], verbs)}")
    path = Path(settings.pop("store.path", bare.pop(0) if name in ("list", "verify") and bare else _PATH))
    file = bare.pop(0) if name == "export" and bare else None
    if bare:
        raise ConfigError(f"store {name}: what is {bare[0]!r}? expected key=value")
    if not path.exists():
        raise ConfigError(
            f"there is no store at {path}; give its folder: python -m apm_lab store {name} store.path=..."
        )
    verbs[name](path, file, settings, yes)


def _setting(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    known = ("store.path", "store.machine", *FIELDS)
    if key not in known:
        raise ConfigError(f"store: {key}: no such key{did_you_mean(key, known)}")
    return key, value


def _list(path: Path, _file: str | None, wanted: dict[str, str], _yes: bool) -> None:
    """Print a line per source: rows, bytes of their values, tokens."""
    wanted.pop("store.machine", None)
    store = Store(path, reading=True)
    sources = [source for source in sources_of(store) if source.matches(wanted)]
    texts, scores = (sum(each.rows for each in sources if each.shard.kind.name == kind) for kind in ("texts", "scores"))
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    machines = sorted({shard.path.parent.name for shard in shards_of(store)})
    print(f"{path}: {texts} texts, {scores} scores, {size / 1e6:.1f} MB, of {', '.join(machines) or 'no machine'}")
    print(f"{'rows':>9s} {'MB':>8s} {'tokens in':>11s} {'tokens out':>11s}  source")
    grouped: dict[tuple[str, ...], list[Source]] = defaultdict(list)
    for source in sources:
        grouped[source.header].append(source)
    for header, parts in sorted(grouped.items()):
        rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
        read, written = (_total(part.tokens_in for part in parts), _total(part.tokens_out for part in parts))
        print(f"{rows:9d} {size / 1e6:8.1f} {read:>11s} {written:>11s}  {_named(header)}")
    aside = sorted(
        str(file.relative_to(path))
        for file in path.rglob("*.damaged-*")
        if not file.name.endswith(("-wal", "-shm", "-journal"))
    )
    if aside:
        print(f"set aside as damaged, to be deleted at will: {', '.join(aside)}")


def _total(values: Iterator[int | None]) -> str:
    known = [value for value in values if value is not None]
    return str(sum(known)) if known else "-"


def _named(header: Sequence[str]) -> str:
    """Return a source in one line; the long parts (a rubric's text) are left out."""
    return " ".join(part for part in header if len(part) <= 120) or "(no header)"


def _verify(path: Path, _file: str | None, _wanted: dict[str, str], _yes: bool) -> None:
    """Check every page and every row of every file; StoreError when some are damaged."""
    damaged = []
    for shard in shards_of(Store(path, reading=True)):
        health = check(shard)
        print(f"{shard.path}: {health.rows} rows, {'sound' if not health.faults else 'DAMAGED'}")
        if health.faults:
            damaged.append(f"{shard.path}: {'; '.join(health.faults)}")
    if damaged:
        advice = "the next run on a file's machine sets it aside and keeps the rows that read well"
        raise StoreError("\n  ".join([f"{len(damaged)} damaged; {advice}:", *damaged]))


def _export(path: Path, file: str | None, wanted: dict[str, str], _yes: bool) -> None:
    """Write every text and score with its key and header to a file, which appears whole or not at all."""
    wanted.pop("store.machine", None)
    if file is None or not file.endswith(_KINDS):
        raise ConfigError(f"store export needs a file that ends in {', '.join(_KINDS)}: store export texts.jsonl")
    sources = [source for source in sources_of(Store(path, reading=True)) if source.matches(wanted)]
    sources = [source for source in sources if source.shard.kind.name != "vectors"]
    target = Path(file)
    draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
    write = _write_parquet if file.endswith(".parquet") else _write_lines
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        count = write(draft, sources, file)
        draft.replace(target)
    except OSError as fault:
        raise StoreError(f"{target} can't be written: {fault.strerror or fault}") from fault
    finally:
        draft.unlink(missing_ok=True)
    print(f"{target}: {count} rows of {len(sources)} sources")


def _columns(source: Source) -> Iterator[list[dict[str, Any]]]:
    """Yield a source's rows as they are exported."""
    named = dict(zip(FIELDS, source.header, strict=False))
    for rows in rows_of(source):
        yield [
            {
                "key": row.key.hex(),
                **{name: named.get(name) for name in FIELDS},
                "header": list(row.header),
                "text": row.value if row.kind == "texts" else None,
                "score": row.value if row.kind == "scores" else None,
                "tokens_in": row.tokens_in,
                "tokens_out": row.tokens_out,
            }
            for row in rows
        ]


def _write_lines(draft: Path, sources: Sequence[Source], name: str) -> int:
    count = 0
    opened = gzip.open if name.endswith(".gz") else open
    with cast(IO[str], opened(draft, "wt", encoding="utf-8")) as handle:
        for source in sources:
            for rows in _columns(source):
                handle.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
                count += len(rows)
    return count


def _write_parquet(draft: Path, sources: Sequence[Source], _name: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, whole = pa.string(), pa.int64()
    schema = pa.schema(
        [
            *[(name, text) for name in ("key", *FIELDS)],
            ("header", pa.list_(text)),
            ("text", text),
            ("score", pa.float64()),
            ("tokens_in", whole),
            ("tokens_out", whole),
        ]
    )
    count = 0
    with pq.ParquetWriter(draft, schema) as writer:
        for source in sources:
            for rows in _columns(source):
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                count += len(rows)
    return count


def _prune(path: Path, _file: str | None, wanted: dict[str, str], yes: bool) -> None:
    """Say which sources' rows would go, and with `--yes` delete them from this machine's files."""
    machine = wanted.pop("store.machine", None)
    if not wanted or not all(wanted.values()):
        raise ConfigError(
            f"store prune needs what to delete, one or more of {', '.join(FIELDS)}: store prune model=NAME"
        )
    store = Store(path, machine=machine) if yes else Store(path, reading=True)
    own = Store(path, machine=machine, reading=True).machine
    for source in sources_of(store):
        if source.matches(wanted):
            ours = source.shard.path.parent.name == own
            went = prune(source) if yes and ours else 0
            done = f"deleted {went}" if went else "would delete" if ours and not yes else "left to its own machine:"
            print(
                f"{done} {source.shard.path}: {source.rows} rows, {source.bytes / 1e6:.1f} MB  {_named(source.header)}"
            )
    if not yes:
        print("nothing was deleted: the same command with --yes does it; runs then ask for these rows again")
