"""JSON lines: one object a line, read by DuckDB; lines that it refuses are found a block at a time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.connectors.api import BadRow
from sqlstream.connectors.filesystem.columns import (
    EXACT_DIGITS,
    Wanted,
    column_map,
    file_list,
    from_text,
    literal,
    text_item,
    text_type,
)
from sqlstream.connectors.filesystem.cutting import count_lines
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.filesystem.pieces import Piece, Workspace, open_entry
from sqlstream_operators.errors import DataError
from sqlstream_operators.fragment import DuckSession
from sqlstream_operators.types import JSON, VARCHAR, Kind, SqlType

#: At most this much of a bad row's text is kept.
RAW_BYTES = 64 << 10
_BLOCK = 8 << 20
_LARGEST_LINE = 64 << 20
_NEWLINE = 10
# A string (nothing in it is a number), or a number with a point.
_LONG_NUMBER = re.compile(rb'"(?:[^"\\\\]|\\\\.)*"|(-?\d+\.\d+(?:[eE][+-]?\d+)?)')
_BOM = b"\xef\xbb\xbf"


def strict_sql(wanted: Wanted, options: FileOptions, pieces: Sequence[Piece], work: Workspace) -> str:
    """A SELECT over the pieces in order; it fails when it is run if any line can't be read."""
    return _select(wanted, [work.text(piece) for piece in pieces], [piece.entry for piece in pieces])


def _select(wanted: Wanted, paths: Sequence[str], entries: Sequence[FileEntry]) -> str:
    columns = {column.name: text_type(column.type, json=True) for column in wanted.columns}
    if not columns:  # something must be read to count lines; a key that no object has
        columns = {"\x01": VARCHAR}
    items = [text_item(column, json=True) for column in wanted.columns] + wanted.constants(entries)
    return (
        f"SELECT {', '.join(items) or '1 AS one'} FROM read_json({file_list(paths)}, "
        f"format = 'newline_delimited', records = true, columns = {column_map(columns)}, "
        f"maximum_object_size = {_LARGEST_LINE}, hive_partitioning = false)"
    )


def careful(
    duck: DuckSession, wanted: Wanted, options: FileOptions, piece: Piece, work: Workspace
) -> tuple[pa.Table, list[BadRow]]:
    """The readable rows of a piece, and the lines that are not."""
    path = Path(work.text(piece, plain=True))
    line = 1
    if piece.start:
        with open_entry(piece.entry) as file:
            line += count_lines(file, 0, piece.start)
    good = work.new_file()
    numbers: list[npt.NDArray[np.int64]] = []
    bad: list[BadRow] = []
    with good.open("wb") as out:
        for block in _blocks(path, first=piece.start == 0):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE) + 1
            if not len(ends) or ends[-1] < len(block):
                ends = np.append(ends, len(block))
            starts = np.concatenate([[0], ends[:-1]])
            refused = _refused(duck, wanted, options, block, starts, ends)
            repaired = _repaired(duck, wanted, options, block, starts, ends, refused)
            kept = 0
            for index, reason in refused:
                out.write(block[kept : starts[index]])
                kept = int(ends[index])
                text = repaired.get(index)
                if text is not None:
                    out.write(text)
                    continue
                bad.append(_bad(piece, line + index, block[starts[index] : ends[index]], reason))
            out.write(block[kept:])
            numbers.append(
                line + np.delete(np.arange(len(ends)), [i for i, _ in refused if i not in repaired])
            )
            line += len(ends)
    try:
        return duck.query(_select(wanted, [str(good)], [piece.entry])), bad
    except DataError:
        lines = io.BytesIO(good.read_bytes()).readlines()
        table, more = _isolate(duck, wanted, piece, lines, np.concatenate(numbers).tolist(), work)
        return table, sorted([*bad, *more], key=lambda row: row.line or 0)


def _bad(piece: Piece, line: int, raw: bytes, reason: str) -> BadRow:
    text = raw[:RAW_BYTES].decode("utf-8", "replace").rstrip("\r\n")
    return BadRow(piece.entry.path, line, text, reason)


def _blocks(path: Path, *, first: bool) -> Iterator[bytes]:
    """The file in blocks of whole lines, without a byte order mark at its beginning."""
    with path.open("rb") as file:
        rest = file.read(len(_BOM)) if first else b""
        rest = b"" if rest == _BOM else rest
        while chunk := file.read(_BLOCK):
            block = rest + chunk
            end = block.rfind(b"\n") + 1
            rest = block[end:]
            if end:
                yield block[:end]
        if rest:
            yield rest


def _refused(
    duck: DuckSession,
    wanted: Wanted,
    options: FileOptions,
    block: bytes,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> list[tuple[int, str]]:
    """(line in the block, reason) of every line that `strict_sql` would refuse, in order."""
    offsets = pa.py_buffer(np.append(starts, ends[-1]).astype(np.int64))
    lines = pa.Array.from_buffers(pa.large_binary(), len(ends), [None, offsets, pa.py_buffer(block)])
    table = pa.table({"i": pa.array(np.arange(len(ends))), "line": lines})
    cases = ["WHEN t IS NULL THEN 'not UTF-8'", "WHEN trim(t, e' \\t\\r\\n') = '' THEN NULL"]
    cases.append("WHEN NOT json_valid(t) THEN 'not valid JSON'")
    cases.append("WHEN json_type(t) NOT IN ('OBJECT', 'NULL') THEN 'not a JSON object but ' || json_type(t)")
    for column in wanted.columns:
        value = f"json_extract(t, {literal(_pointer(column.name))})"
        shown = literal(f"column {column.name}: not {_article(column.type)}: ")
        cases.append(f"WHEN {_repeated('t', column.name)} THEN {literal(f'key {column.name} twice')}")
        if options.json_fail_on_missing:
            missing = literal(f"key {column.name} is missing")
            cases.append(f"WHEN NOT json_exists(t, {literal(_pointer(column.name))}) THEN {missing}")
        check = acceptable(value, column.type)
        if check is not None:
            cases.append(
                f"WHEN NOT coalesce(TRY({check}), false) THEN {shown} || left({value}::VARCHAR, 200)"
            )
    found = duck.query(
        f"SELECT i, reason FROM (SELECT i, CASE {' '.join(cases)} END AS reason "
        f"FROM (SELECT i, TRY(decode(line)) AS t FROM lines)) WHERE reason IS NOT NULL ORDER BY i",
        {"lines": table},
    )
    return list(zip(found["i"].to_pylist(), found["reason"].to_pylist(), strict=True))


def _repaired(
    duck: DuckSession,
    wanted: Wanted,
    options: FileOptions,
    block: bytes,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    refused: Sequence[tuple[int, str]],
) -> dict[int, bytes]:
    """Refused lines that can be read once their long numbers are strings, which DuckDB reads exactly."""
    changed = {}
    for index, _ in refused:
        line = block[starts[index] : ends[index]]
        quoted = _LONG_NUMBER.sub(_quote_number, line)
        if quoted != line:
            changed[index] = quoted if quoted.endswith(b"\n") else quoted + b"\n"
    if not changed or not any(_has_long_decimal(column.type) for column in wanted.columns):
        return {}
    last = np.cumsum([len(text) for text in changed.values()])
    again = _refused(
        duck, wanted, options, b"".join(changed.values()), np.concatenate([[0], last[:-1]]), last
    )
    still = {position for position, _ in again}
    return {index: text for n, (index, text) in enumerate(changed.items()) if n not in still}


def _quote_number(found: re.Match[bytes]) -> bytes:
    number = found.group(1)
    if number is None or sum(48 <= byte <= 57 for byte in number) <= EXACT_DIGITS:
        return found.group()
    return b'"' + number + b'"'


def _has_long_decimal(type_: SqlType) -> bool:
    inner = [t for t in (type_.element, type_.key, type_.value) if t is not None]
    inner += [field for _, field in type_.fields]
    if type_.kind is Kind.DECIMAL:
        return (type_.precision or 0) > EXACT_DIGITS
    return any(map(_has_long_decimal, inner))


def acceptable(value: str, type_: SqlType, depth: int = 0) -> str | None:
    """SQL that is TRUE where read_json can make `type_` of the JSON `value`; None where it always can.

    read_json stops at the first line that it can't read, so which lines those are is asked in this way.
    """
    absent = f"coalesce(json_type({value}), 'NULL') = 'NULL'"
    match type_.kind:
        case Kind.VARCHAR | Kind.JSON:
            return None
        case Kind.ARRAY:
            assert type_.element is not None
            inner = acceptable(f"e{depth}", type_.element, depth + 1)
            check = f"json_type({value}) = 'ARRAY'"
            if inner is not None:
                check += f" AND {_every(f'TRY(CAST({value} AS JSON[]))', depth, inner)}"
        case Kind.MAP:
            assert type_.key is not None
            assert type_.value is not None
            values = f"map_values(TRY(CAST({value} AS MAP(VARCHAR, JSON))))"
            inner = acceptable(f"e{depth}", type_.value, depth + 1)
            keys = f"json_keys({value})"
            check = f"json_type({value}) = 'OBJECT' AND len({keys}) = len(list_distinct({keys}))"
            if type_.key.kind is not Kind.VARCHAR:
                made = f"TRY(CAST(CAST({keys} AS VARCHAR[]) AS {text_type(type_.key, json=True)}[]))"
                check += f" AND {made} IS NOT NULL AND len(list_distinct({made})) = len({keys})"
            if inner is not None:
                check += f" AND {_every(values, depth, inner)}"
        case Kind.STRUCT:
            check = f"json_type({value}) = 'OBJECT'"
            for name, field in type_.fields:
                check += f" AND NOT ({_repeated(value, name)})"
                inner = acceptable(f"json_extract({value}, {literal(_pointer(name))})", field, depth)
                if inner is not None:
                    check += f" AND ({inner})"
        case Kind.BLOB:
            check = f"TRY(from_base64({value} ->> '$')) IS NOT NULL"
        case Kind.DECIMAL if text_type(type_, json=True) == JSON:
            check = f"TRY({from_text(f'CAST({value} AS JSON)', type_, json=True)}) IS NOT NULL"
        case _:
            check = f"TRY(CAST({value} AS {text_type(type_)})) IS NOT NULL"
    return f"{absent} OR ({check})"


def _every(values: str, depth: int, condition: str) -> str:
    return f"coalesce(list_bool_and(list_transform({values}, lambda e{depth}: {condition})), true)"


def _repeated(value: str, key: str) -> str:
    """SQL: whether an object has a key more than once, which read_json refuses."""
    return f"len(list_filter(json_keys({value}), lambda k: k = {literal(key)})) > 1"


def _pointer(name: str) -> str:
    """The JSON pointer of a key."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _article(type_: SqlType) -> str:
    text = str(type_)
    return f"an {text}" if text[0] in "AEIOU" else f"a {text}"


def _isolate(
    duck: DuckSession,
    wanted: Wanted,
    piece: Piece,
    lines: Sequence[bytes],
    numbers: Sequence[int],
    work: Workspace,
) -> tuple[pa.Table, list[BadRow]]:
    """The rows of `lines` (with these line numbers) and those that fail, found by reading ever smaller
    halves.

    Only reached if `acceptable` calls a line readable that DuckDB does not read.
    """
    tables: list[pa.Table] = []
    bad: list[BadRow] = []
    waiting = [(0, 0), (0, len(lines))]  # the empty range gives the schema
    while waiting:
        start, end = waiting.pop()
        part = work.new_file()
        part.write_bytes(b"".join(lines[start:end]))
        try:
            tables.append(duck.query(_select(wanted, [str(part)], [piece.entry])))
        except DataError as error:
            if start == end:
                raise  # not because of any line
            if end - start == 1:
                reason = error.message.split("\n")[0].replace(f'"{part}"', "").strip()
                bad.append(_bad(piece, numbers[start], lines[start], reason))
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
        part.unlink()
    return pa.concat_tables(tables), bad
