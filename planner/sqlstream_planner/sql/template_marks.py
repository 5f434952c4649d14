"""Invisible marks in a template's text, by which what is rendered is mapped back to the user's own lines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sqlstream_planner.sql.rendered import Segment, line_starts

_MARK_OPEN, _MARK_CLOSE = "\U0010f800", "\U0010f801"
_MARK_DIGITS = 0x10F810
_MARK = re.compile(f"{_MARK_OPEN}([\U0010f810-\U0010f81f]+){_MARK_CLOSE}")


def marked_source(environment: Any, number: int, file: str, text: str) -> str:
    """The text of a template, the `number`th, with a mark before each text and each variable of it."""
    parts: list[str] = []
    position = 0
    in_raw = False
    try:
        tokens = list(environment.lexer.tokeniter(text, file, file))
    except Exception:
        return text  # It does not lex: compiling it says why.
    starts: list[int] = []
    for _, _, value in tokens:
        # Only blanks that `{%-` strips can lie between two tokens.
        found = text.find(value, position)
        starts.append(found)
        position = found + len(value)
    for index, (_, kind, value) in enumerate(tokens):
        start = starts[index]
        if kind == "raw_begin":
            in_raw = True
        elif kind == "raw_end":
            in_raw = False
        if kind == "data" and value:
            parts.append(_mark(number, start, 0))
        elif kind == "variable_begin" and not in_raw:
            end = next((i for i in range(index, len(tokens)) if tokens[i][1] == "variable_end"), index)
            stop = starts[end] + len(tokens[end][2].rstrip())
            parts.append(_mark(number, start, stop - start))
        parts.append(value)
    return "".join(parts)


def _mark(source: int, offset: int, length: int) -> str:
    digits = "".join(f"{number:08x}" for number in (source, offset, length))
    return _MARK_OPEN + "".join(chr(_MARK_DIGITS + int(d, 16)) for d in digits) + _MARK_CLOSE


def _marks(text: str) -> Iterator[tuple[int, int, int, int, int]]:
    """Each mark: where it starts and ends in `text`, and the source, offset and length that it carries."""
    for found in _MARK.finditer(text):
        digits = "".join(f"{ord(c) - _MARK_DIGITS:x}" for c in found.group(1))
        if len(digits) == 24:
            yield found.start(), found.end(), int(digits[:8], 16), int(digits[8:16], 16), int(digits[16:], 16)


def unmarked(text: str) -> str:
    """A text without its marks."""
    return _MARK.sub("", text)


def segments_of(
    marked: str, output: str, files: list[str], sources: Mapping[str, str], file: str
) -> tuple[Segment, ...]:
    """Where each part of `output` is from; `marked` is the same rendered with marks."""
    segments = [Segment(0, file, 0, True)]
    size = 0
    done = 0
    for start, end, source, offset, length in _marks(marked):
        if source >= len(files):
            continue
        size += start - done
        done = end
        segments.append(Segment(size, files[source], offset, length == 0, length))
    if unmarked(marked) != output:
        return _segments_by_lines(output, sources[file], file)
    # Of several marks at one offset the last one is whose text follows.
    kept = [s for s, following in zip(segments, [*segments[1:], None], strict=True)
            if following is None or following.start > s.start]  # fmt: skip
    return tuple(kept)


def _segments_by_lines(output: str, source: str, file: str) -> tuple[Segment, ...]:
    out_lines, source_lines = output.split("\n"), source.split("\n")
    out_starts, source_starts = line_starts(output), line_starts(source)
    segments: list[Segment] = []
    matcher = difflib.SequenceMatcher(a=source_lines, b=out_lines, autojunk=False)
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        for row in range(b0, b1):
            at = min(a0 + row - b0, max(a1 - 1, 0), len(source_lines) - 1)
            same = kind == "equal"
            length = 0 if same else max(1, len(source_lines[at]))
            segments.append(Segment(out_starts[row], file, source_starts[at], same, length))
    return tuple(segments) or (Segment(0, file, 0, True),)
