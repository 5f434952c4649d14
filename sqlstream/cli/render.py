"""Diagnostics on a terminal (with colour) and as JSON."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

from sqlstream.cli.output import json_line
from sqlstream.cli.painted import BOLD, BOLD_BLUE, BOLD_RED, BOLD_YELLOW, GREEN, RESET
from sqlstream_planner.diagnostics import Diagnostic, render

_STYLES = {"error": BOLD_RED, "warning": BOLD_YELLOW}
_HEAD = re.compile(r"(error|warning)(\[\w+\])(: .*)", re.DOTALL)
_FRAME = re.compile(r"(\s*(?:-->|\d* \|))(.*)", re.DOTALL)
_HINT = re.compile(r"(\s* = )(note|help)(: .*)", re.DOTALL)


def colourful(stream: TextIO) -> bool:
    """Whether to write colours: a terminal, unless NO_COLOR is set or TERM is dumb; FORCE_COLOR wins."""
    if os.environ.get("FORCE_COLOR"):
        return True
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def diagnostic_text(
    diagnostic: Diagnostic, sources: Mapping[str, str] = MappingProxyType({}), *, colour: bool = False
) -> str:
    """A diagnostic with the line that it is about; read from disk when `sources` does not have the file."""
    text = render(diagnostic, _source(diagnostic, sources))
    return "\n".join(_coloured(line, diagnostic.severity) for line in text.split("\n")) if colour else text


def show(
    diagnostics: Iterable[Diagnostic],
    sources: Mapping[str, str] = MappingProxyType({}),
    stream: TextIO | None = None,
) -> None:
    """Write diagnostics to a stream (standard error), an empty line after each; count the errors if several."""
    out = stream or sys.stderr
    errors = 0
    for diagnostic in diagnostics:
        out.write(diagnostic_text(diagnostic, sources, colour=colourful(out)) + "\n\n")
        errors += diagnostic.severity == "error"
    if errors > 1:
        out.write(f"{errors} errors\n")
    out.flush()


def to_json(diagnostics: Iterable[Diagnostic], **more: object) -> str:
    """One line of JSON: `more`, then `diagnostics`."""
    return json_line({**more, "diagnostics": [d.to_json() for d in diagnostics]})


def _source(diagnostic: Diagnostic, sources: Mapping[str, str]) -> str | None:
    if diagnostic.span is None:
        return None
    if diagnostic.span.file in sources:
        return sources[diagnostic.span.file]
    try:
        text = Path(diagnostic.span.file).read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _coloured(line: str, severity: str) -> str:
    head = _HEAD.fullmatch(line)
    if head:
        return f"{_STYLES.get(severity, BOLD)}{head[1]}{head[2]}{RESET}{BOLD}{head[3]}{RESET}"
    hint = _HINT.fullmatch(line)
    if hint:
        style = GREEN if hint[2] == "help" else BOLD_BLUE
        return f"{BOLD_BLUE}{hint[1]}{RESET}{style}{hint[2]}{RESET}{hint[3]}"
    frame = _FRAME.fullmatch(line)
    if frame:
        rest = frame[2]
        if rest.strip() and not rest.strip("^ "):
            rest = f"{_STYLES.get(severity, BOLD)}{rest}{RESET}"
        return f"{BOLD_BLUE}{frame[1]}{RESET}{rest}"
    return line
