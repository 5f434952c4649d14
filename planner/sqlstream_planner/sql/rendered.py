"""The text that is parsed and the way back from it to the user's own files."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlstream_planner.diagnostics import Span


@dataclass(frozen=True, slots=True)
class Segment:
    """From offset `start` of the rendered text on: where it came from.

    `verbatim`: text that stands in the file as it is, so offsets advance together. Otherwise it is the
    output of an expression, and every offset maps to the `length` characters at `source_offset`.
    """

    start: int
    file: str
    source_offset: int
    verbatim: bool
    length: int = 0


@dataclass(frozen=True, slots=True)
class RenderedSql:
    """SQL after templating, with a map back to the files that it came from.

    `sources` has the text of every file that took part, for showing lines in messages. Lines and columns
    are 1-based, offsets 0-based, all in characters.
    """

    text: str
    file: str
    segments: tuple[Segment, ...]
    sources: MappingProxyType[str, str]
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _lines: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _source_lines: dict[str, tuple[int, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.segments or self.segments[0].start != 0:
            raise ValueError("segments must cover the text from its start")
        object.__setattr__(self, "_starts", tuple(s.start for s in self.segments))
        object.__setattr__(self, "_lines", line_starts(self.text))
        object.__setattr__(self, "_source_lines", {f: line_starts(t) for f, t in self.sources.items()})

    @staticmethod
    def plain(text: str, file: str) -> RenderedSql:
        """A text without any templating: it maps to itself.

        >>> RenderedSql.plain("SELECT 1;\\nSELECT 2", "q.sql").locate(2, 8)
        ('q.sql', 2, 8)
        """
        return RenderedSql(text, file, (Segment(0, file, 0, True),), MappingProxyType({file: text}))

    def locate(self, line: int, column: int) -> tuple[str, int, int]:
        """The place in the user's files of a place in the rendered text: file, line, column."""
        start = self._lines[max(0, min(line, len(self._lines)) - 1)]
        file, offset, _ = self._source(start + column - 1)
        return (file, *self._line_column(file, offset))

    def span(self, start: int, end: int) -> Span:
        """The place in the user's files of `[start, end)` of the rendered text, on its first line."""
        file, offset, length = self._source(start)
        line, column = self._line_column(file, offset)
        if length is None:
            newline = self.text.find("\n", start, end)
            stop = end if newline < 0 else newline
            # Where the range leaves the segment it starts in, only its first part has a known length.
            after = bisect_right(self._starts, start)
            if after < len(self._starts):
                stop = min(stop, max(self._starts[after], start + 1))
            length = stop - start
        else:
            text = self.sources[file]
            newline = text.find("\n", offset, offset + length)
            length = newline - offset if newline >= 0 else length
        return Span(file, line, column, max(1, length))

    def _source(self, offset: int) -> tuple[str, int, int | None]:
        segment = self.segments[max(0, bisect_right(self._starts, offset) - 1)]
        if segment.verbatim:
            return segment.file, segment.source_offset + offset - segment.start, None
        return segment.file, segment.source_offset, segment.length

    def _line_column(self, file: str, offset: int) -> tuple[int, int]:
        lines = self._source_lines[file]
        line = bisect_right(lines, offset)
        return line, offset - lines[line - 1] + 1


def line_starts(text: str) -> tuple[int, ...]:
    """The offset at which each line of `text` starts.

    >>> line_starts("a\\nbc\\n")
    (0, 2, 5)
    """
    starts = [0]
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return tuple(starts)
