"""What an endpoint's refusals mean: what may pass when asked again, and what the user has to mend."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from apm_lab.errors import ApmLabError, ConfigError, EndpointError, did_you_mean

__all__ = ["MalformedError", "PassingError", "may_pass", "model_names", "refusal", "said"]

_MOST_SHOWN = 400
_TOO_LONG = re.compile(
    r"context.{0,20}(length|size|window)|maximum.{0,20}(context|model).{0,20}len|too long|exceed.{0,40}tokens", re.I
)


class PassingError(Exception):
    """A fault that may pass: `status` of the answer (None: there was none), and the seconds it asks to wait."""

    def __init__(self, what: str, status: int | None = None, wait_s: float | None = None) -> None:
        super().__init__(what)
        self.status, self.wait_s = status, wait_s
        self.congested = status in (429, 503, 529)


class MalformedError(PassingError):
    """An answer that is not what it has to be: cut short, no JSON, not of a chat, with an impossible number."""


def may_pass(status: int) -> bool:
    """Whether a status may be another one when asked again."""
    return status in (408, 409, 425, 429) or status >= 500


def said(body: bytes, secret: str | None) -> str:
    """Return the server's own message, on one line, without the key should it have been echoed."""
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    for name in ("error", "message", "detail"):
        if isinstance(found, Mapping) and found.get(name):
            found = found[name]
    shown = found if isinstance(found, str) else json.dumps(found)
    if secret:
        shown = shown.replace(secret, "***")
    shown = " ".join(shown.split())
    return shown if len(shown) <= _MOST_SHOWN else shown[: _MOST_SHOWN - 3] + "..."


def refusal(
    where: str, model: str, status: int, message: str, key_env: str | None, offered: list[str] | None, length: int
) -> ApmLabError:
    """Return the error for a status that will not pass.

    `where`: the endpoint; `offered`: the models that it names, where it could be asked; `length`: bytes sent.
    """
    head = f"{where} refused model {model}: HTTP {status}: {message or 'no message'}"
    if status in (401, 403):
        if key_env is None:
            return ConfigError(f"{head}; it wants a key: put it into a variable and name that with api_key_env=...")
        return ConfigError(f"{head}; check the key in {key_env}, and what it may use")
    if _TOO_LONG.search(message):
        return ConfigError(
            f"{head}; the call has {length} bytes, which with max_tokens is more than the model's context: "
            "take shorter texts, a smaller max_tokens, or serve the model with a longer context"
        )
    if status == 404 and offered is not None:
        if model not in offered:
            return ConfigError(f"{head}; {where}/models offers other models{did_you_mean(model, offered)}")
        return ConfigError(f"{head}; it has the model but not this address: base_url ends in /v1 on most servers")
    if status == 404:
        return ConfigError(f"{head}; check base_url (it ends in /v1 on most servers) and the model's name")
    return EndpointError(f"{head}; check the values sent (temperature, max_tokens, extra, seeded, guided)")


def model_names(body: Any) -> list[str] | None:  # noqa: ANN401 (JSON)
    """Return the ids in an answer of /models, None where it is none."""
    rows = body.get("data") if isinstance(body, Mapping) else None
    if not isinstance(rows, list):
        return None
    return [str(row["id"]) for row in rows if isinstance(row, Mapping) and "id" in row]
