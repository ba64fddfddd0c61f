"""A language model that is asked by file: calls go out as one batch, answers come back as others."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Literal

from apm_lab.errors import ConfigError, PendingCalls
from apm_lab.language.batch_answers import BatchAnswers
from apm_lab.language.in_order import in_order
from apm_lab.language.protocols import Answer, GenerationCall
from apm_lab.language.remote.chat import ChatSettings, read_usage
from apm_lab.language.remote.fault import MalformedError

__all__ = ["BatchModel"]

_GROUP = 500  # answers handed out, and so stored, at once


class BatchModel:
    """Answers chats from the files `answers*.jsonl` of a folder, and writes what is missing into its `calls.jsonl`.

    Both are in the OpenAI batch form, which `vllm run-batch` reads and writes too. Its answers are stored as those of
    an `OpenAiModel` with the same values.

    Args:
        model: the name of the model in the requests.
        folder: where the files lie; one for each role.
        temperature, top_p, max_tokens, revision, extra, guided, seeded: as in `OpenAiModel`.
        name: what tables call it.

    """

    engine = "remote"

    def __init__(
        self,
        model: str,
        folder: str,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 512,
        revision: str | None = None,
        extra: dict[str, Any] | None = None,
        guided: Literal["none", "structured", "guided_choice", "json_schema"] = "none",
        seeded: bool = True,
        name: str | None = None,
    ) -> None:
        if not folder.strip() or "\0" in folder:
            raise ConfigError(f"folder={folder!r}: expected the path of a folder for the batch files")
        self.name, self.folder = name or model, Path(folder)
        self._chat = ChatSettings(
            model=model,
            revision=revision,
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens,
            extra=extra or {},
            guided=guided,
            seeded=seeded,
        )
        header = "\x1f".join(("generate", self.identity, self.engine, self.sampling))
        self._prefix = blake2b(header.encode(), digest_size=16)
        self._answers = BatchAnswers(self.folder)
        self._written: set[bytes] = set()
        self._draft: IO[str] | None = None
        self.collecting = False

    @property
    def identity(self) -> str:
        """Model name and, where one is given, revision."""
        return self._chat.identity

    @property
    def sampling(self) -> str:
        """Canonical JSON of the sampling values."""
        return self._chat.sampling

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one text per call, in order; PendingCalls where the files do not hold them all."""
        return in_order(self.stream(calls))

    def stream(self, calls: Sequence[GenerationCall]) -> Iterator[Sequence[Answer[str]]]:
        """Yield the answers that the files hold; after them PendingCalls says where the other calls are written.

        While `collecting`, the others are only noted for an `export` to come.
        """
        self._answers.refresh()
        missing = []
        for start in range(0, len(calls), _GROUP):
            group = []
            for place, call in enumerate(calls[start : start + _GROUP], start):
                answer = self._answer(place, call)
                if answer is None:
                    missing.append(call)
                else:
                    group.append(answer)
            if group:
                yield group
        if missing:
            self.defer(missing)
            if not self.collecting:
                self.export()

    def defer(self, calls: Sequence[GenerationCall]) -> None:
        """Note calls for the next `export`, each once; those that the files answer are left out."""
        self._answers.refresh()
        for call in calls:
            key = self._key(call)
            if key not in self._written and self._answer(0, call) is None:
                if self._draft is None:
                    self._draft = self._begin()
                self._written.add(key)
                self._draft.write(self._line(key, call))

    def export(self) -> None:
        """Put the noted calls in place of the `calls.jsonl` that was there; PendingCalls says so where there are any.

        Without any the file of an earlier export goes, since all its calls are answered.
        """
        calls, count = self.folder / "calls.jsonl", len(self._written)
        if self._draft is None:
            calls.unlink(missing_ok=True)
            return
        self._draft.flush()
        os.fsync(self._draft.fileno())
        self._draft.close()
        Path(self._draft.name).replace(calls)
        self._draft, self._written = None, set()
        raise PendingCalls(
            f"{count} calls of {self.identity} wait for answers: {calls} holds them{self._answers.told()}\n"
            f"  a hosted service: upload the file as a batch, and put its output into {self.folder} as "
            "answers-1.jsonl (any name that begins with answers; any number of files)\n"
            f"  vLLM: vllm run-batch -i {calls} -o {self.folder / 'answers-1.jsonl'} --model {self._chat.model}\n"
            "then give the same command again"
        )

    def _begin(self) -> IO[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        return (self.folder / f".calls.{os.getpid()}.draft").open("w", encoding="utf-8")

    def _line(self, key: bytes, call: GenerationCall) -> str:
        body = self._chat.body(call, self._answers.failures(key))
        row = {"custom_id": key.hex(), "method": "POST", "url": "/v1/chat/completions", "body": body}
        return f"{json.dumps(row)}\n"

    def _answer(self, place: int, call: GenerationCall) -> Answer[str] | None:
        key = self._key(call)
        for body in self._answers.bodies(key):
            try:
                return Answer(place, self._chat.text(body, call), read_usage(body))
            except MalformedError as fault:
                self._answers.unusable(key, str(fault))
        return None

    def _key(self, call: GenerationCall) -> bytes:
        """Return the digest under which a call goes out and its answer comes back."""
        digest = self._prefix.copy()
        for message in call.messages:
            turn = f"\x1e{message.role}\x1f{len(message.content)}\x1f{message.content}"
            digest.update(turn.encode("utf-8", "surrogatepass"))
        choices = None if call.choices is None else list(call.choices)
        digest.update(f"\x1e{call.sample}\x1e{json.dumps(choices)}".encode())
        return digest.digest()
