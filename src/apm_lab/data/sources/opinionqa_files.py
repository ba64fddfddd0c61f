"""Where OpinionQA's files lie: one survey's folder, or the folder of all of them."""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from apm_lab.errors import DataError

__all__ = ["DOWNLOAD", "SurveyFiles", "contentious_keys", "survey_files", "trait_values"]

DOWNLOAD = (
    "OpinionQA's human_resp (CodaLab worksheet 0x6fb693719477478aac73fc07db333f69), or a folder with "
    "info.csv and <TRAIT>_data.json"
)
_CONTENTIOUS = "Pew_American_Trends_Panel_disagreement_500"
_RESPONSES = ("responses.csv", "responses.csv.gz")


@dataclass(frozen=True, slots=True)
class SurveyFiles:
    """One survey's folder with its `info.csv`: people's own answers in `responses`, or `counts` by trait."""

    folder: Path
    responses: Path | None
    counts: tuple[Path, ...]

    @property
    def info(self) -> Path:
        """The questions."""
        return self.folder / "info.csv"


def survey_files(path: Path) -> tuple[list[SurveyFiles], int]:
    """Return the surveys at `path` whose answers lie there, and how many others have questions alone.

    Surveys with people's own answers go before those with counts; of the former all are read together, except the
    contentious set beside the waves it was taken from; of the latter there may be one. DataError says what was looked
    for.
    """
    found = next(filter(None, map(_surveys, (path, path / "human_resp", path / "data" / "human_resp"))), [])
    if not found:
        raise DataError(
            f"{path}: no info.csv here, in a folder of it, or in those of human_resp; "
            f"give dataset.path=FOLDER with {DOWNLOAD}"
        )
    answered = [each for each in found if each.responses is not None]
    waves = [each for each in answered if each.folder.name != _CONTENTIOUS] or answered
    if waves:
        return waves, sum(each.responses is None and not each.counts for each in found)
    counted = [each for each in found if each.counts]
    if len(counted) > 1:
        names = ", ".join(each.folder.name for each in counted)
        raise DataError(f"{path} holds the counts of several surveys ({names}); give one of them as dataset.path")
    if not counted:
        names = ", ".join(str(each.folder) for each in found[:3])
        raise DataError(f"{names}: info.csv is there, but neither responses.csv nor <TRAIT>_data.json(.gz) beside it")
    return counted, len(found) - 1


def _surveys(base: Path) -> list[SurveyFiles]:
    folders = [base] if (base / "info.csv").is_file() else _folders(base)
    return [
        SurveyFiles(
            folder,
            next((folder / name for name in _RESPONSES if (folder / name).is_file()), None),
            tuple(sorted(file for file in folder.glob("*_data.json*") if file.suffix in (".json", ".gz"))),
        )
        for folder in folders
    ]


def _folders(base: Path) -> list[Path]:
    folders = [file.parent for file in base.glob("*/info.csv")]
    return sorted(folders, key=lambda folder: (len(folder.name), folder.name))  # W92 before W101


def contentious_keys(surveys: Sequence[SurveyFiles]) -> set[str] | None:
    """Return the keys of the contentious 500, None where the one survey is that set; DataError if they lie nowhere."""
    if [each.folder.name for each in surveys] == [_CONTENTIOUS]:
        return None
    base = surveys[0].folder.parent
    places = (
        base / _CONTENTIOUS / "info.csv",
        base / "model_input" / f"{_CONTENTIOUS}.csv",
        base.parent / "model_input" / f"{_CONTENTIOUS}.csv",
    )
    for file in places:
        if file.is_file():
            return {row["key"] for row in _table(file, "\t" if file.parent.name == "model_input" else ",")}
    raise DataError(
        f"dataset.subset=contentious: none of {', '.join(map(str, places))} is there, which name these questions"
    )


def trait_values(surveys: Sequence[SurveyFiles]) -> dict[str, tuple[str, ...]]:
    """Return the values of each trait by the surveys' `metadata.csv`, in its order; empty where there is none."""
    values: dict[str, dict[str, None]] = {}
    for file in (each.folder / "metadata.csv" for each in surveys):
        for row in _table(file, ",") if file.is_file() else ():
            try:
                options = ast.literal_eval(row["options"])
                values.setdefault(row["key"], {}).update(dict.fromkeys(map(str.strip, options)))
            except (KeyError, ValueError, SyntaxError, TypeError):
                raise DataError(f"{file}: expected a key and a list of texts as options in each row") from None
    return {trait: tuple(options) for trait, options in values.items()}


def _table(file: Path, delimiter: str) -> Iterator[dict[str, str]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            rows = list(csv.DictReader(handle, delimiter=delimiter))
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise DataError(f"{file} can't be read: {fault}") from None
    if rows and "key" not in rows[0]:
        raise DataError(f"{file}: no column key")
    yield from rows
