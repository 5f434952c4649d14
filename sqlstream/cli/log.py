"""The log of a run on standard error: lines for people, or JSON objects for what collects logs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from sqlstream.cli.output import json_line
from sqlstream_planner.text.masking import masked_message

if TYPE_CHECKING:
    from sqlstream_planner.catalog.secrets import Secrets
    from sqlstream_planner.diagnostics import Diagnostic

FORMATS = ("text", "json")
#: From what is least important on.
LEVELS = ("info", "warning", "error")
INFO, WARNING, ERROR = LEVELS


def is_shown(level: str, least: str) -> bool:
    """Whether what is of a level is written where `least` is the least that is.

    >>> [is_shown(level, "warning") for level in LEVELS]
    [False, True, True]
    """
    return LEVELS.index(level) >= LEVELS.index(least)


@dataclass(slots=True)
class Log:
    """Writes events as JSON objects, one per line, from the level `least` on; passwords are stars.

    Each has `time` (UTC), `level`, `event`, `message`, `pipeline` and `epoch`, the last one that is committed, or null where
    that is not known.
    """

    pipeline: str | None = None
    least: str = INFO
    secrets: Secrets | None = None
    stream: TextIO | None = None
    epoch: int | None = None
    clock: Any = field(default=time.time, repr=False)

    def write(self, level: str, event: str, message: str, **fields: Any) -> None:
        """Write an event, unless it is not important enough."""
        if not is_shown(level, self.least):
            return
        now = datetime.fromtimestamp(self.clock(), UTC)
        document = {
            "time": f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z",
            "level": level,
            "event": event,
            "message": message,
            "pipeline": self.pipeline,
            "epoch": self.epoch,
        }
        out = self.stream or sys.stderr
        out.write(json_line(self._shown({**document, **fields}), out) + "\n")
        out.flush()

    def diagnostics(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Write errors and warnings: the message, and the rest as `--json` has it."""
        for one in diagnostics:
            about = {
                name: value for name, value in one.to_json().items() if name not in ("message", "severity")
            }
            self.write(ERROR if one.severity == "error" else WARNING, "diagnostic", one.message, **about)

    def _shown(self, value: Any) -> Any:
        if isinstance(value, str):
            return masked_message(value if self.secrets is None else self.secrets.masked(value))
        if isinstance(value, Mapping):
            return {name: self._shown(one) for name, one in value.items()}
        return [self._shown(one) for one in value] if isinstance(value, list | tuple) else value


def log_of(arguments: Sequence[str]) -> Log | None:
    """The log of a command whose arguments ask for one in JSON, for errors that end it; None: they are for people.

    >>> log_of(["run", "a.sql", "--log-format", "json"]) is None, log_of(["run", "--log-format=text"]) is None
    (False, True)
    """
    followed = zip(arguments, [*arguments[1:], ""], strict=True)
    asked = any(a == "--log-format=json" or (a, b) == ("--log-format", "json") for a, b in followed)
    return Log() if asked else None
