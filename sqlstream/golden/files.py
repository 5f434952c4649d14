"""Golden files: CSV that reads well in a diff, with NULL and the empty string apart.

A header line with the column names, then one line per row. NULL is an empty field, the empty string is `""`.
A field is quoted if it is empty, has a comma, a quote, a line end, or spaces at its ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlstream.golden.rows import Row, Rows
from sqlstream_operators.plan.spec import Schema
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span


def encode(rows: Rows) -> str:
    """The text of a golden file."""
    lines = [",".join(_field(column.name) for column in rows.schema)]
    lines += [",".join("" if cell is None else _field(cell) for cell in row) for row in rows.rows]
    return "\n".join(lines) + "\n"


def decode(text: str, schema: Schema, file: str) -> Rows:
    """The rows of a golden file, columns in the order of `schema`.

    Raises DiagnosticError (GLD004) if the header has other columns, a line has another number of fields, or
    a quote is not closed.
    """
    found = records(text, file)
    if not found:
        raise DiagnosticError(Diagnostic("GLD004", "the file is empty: it has no header", Span(file, 1, 1)))
    header = [cell or "" for cell in found[0][1]]
    declared = [column.name for column in schema]
    if sorted(header) != sorted(declared):
        raise DiagnosticError(
            Diagnostic(
                "GLD004",
                f"the columns are {', '.join(header)}, and the sink's are {', '.join(declared)}",
                Span(file, 1, 1, max(1, len(text.split("\n")[0]))),
                help="if the pipeline is right, write the file anew: sqlstream golden update",
            )
        )
    order = [header.index(name) for name in declared]
    rows: list[Row] = []
    for line, cells in found[1:]:
        if len(cells) != len(header):
            raise DiagnosticError(
                Diagnostic("GLD004", f"{len(cells)} fields, but {len(header)} columns", Span(file, line, 1))
            )
        rows.append(tuple(cells[place] for place in order))
    return Rows(schema, rows)


def read(path: Path, schema: Schema) -> Rows:
    """The rows of the golden file at `path`."""
    return decode(path.read_text(encoding="utf-8"), schema, str(path))


def _field(text: str) -> str:
    if not text or text != text.strip() or any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def records(text: str, file: str) -> list[tuple[int, Sequence[str | None]]]:
    r"""Every record with the line that it starts on.

    >>> records('a,b\n,""\n"x, y",1\n', "f")
    [(1, ['a', 'b']), (2, [None, '']), (3, ['x, y', '1'])]
    """
    found: list[tuple[int, Sequence[str | None]]] = []
    line, place = 1, 0
    while place < len(text):
        start, cells = line, list[str | None]()
        while True:
            if text[place : place + 1] == '"':
                value, place = _quoted(text, place, file, line)
                line += value.count("\n")
                cells.append(value)
            else:
                end = place
                while end < len(text) and text[end] not in ",\n":
                    end += 1
                bare = text[place:end].removesuffix("\r") if text[end : end + 1] == "\n" else text[place:end]
                cells.append(bare or None)
                place = end
            mark = text[place : place + 1]
            if mark == "\r":
                place += 1
                mark = text[place : place + 1]
            place += 1
            if mark != ",":
                break
        line += 1
        found.append((start, cells))
    return found


def _quoted(text: str, start: int, file: str, line: int) -> tuple[str, int]:
    """A quoted field that starts at `start`, and the place after it."""
    parts = []
    place = start + 1
    while True:
        end = text.find('"', place)
        if end < 0:
            raise DiagnosticError(Diagnostic("GLD004", "this quote is never closed", Span(file, line, 1)))
        parts.append(text[place:end])
        if text[end + 1 : end + 2] != '"':
            return '"'.join(parts), end + 1
        place = end + 2
