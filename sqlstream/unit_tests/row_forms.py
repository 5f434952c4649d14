"""Rows in each of the forms that they can be written in, as cells that know where they stand."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlstream.golden.files import records
from sqlstream.unit_tests.fields import mapping, one_of
from sqlstream.unit_tests.model import RowsFormat, WrittenRows
from sqlstream.unit_tests.yaml_nodes import Node, Scalar
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import RowKind
from sqlstream_operators.plan.types import NESTED, Kind, quote_identifier
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, refuse

#: What the column is called that says of changes in CSV and SQL what each is.
CHANGE = "op"
KINDS = tuple(kind.value for kind in RowKind)


@dataclass(frozen=True, slots=True)
class LocatedRow:
    """A row: its cells, and the kind of change that it is."""

    cells: tuple[tuple[Scalar, Node], ...]
    span: Span
    kind: str = RowKind.INSERT.value

    def cell(self, name: str) -> tuple[Scalar | None, Node | None]:
        """The key and the value of a column, ignoring case; None if the row has none."""
        return next(((k, v) for k, v in self.cells if k.text.lower() == name.lower()), (None, None))


def located_rows(rows: WrittenRows, columns: Sequence[str]) -> list[LocatedRow]:
    """The rows in the order in which they are written; `columns` are those of the table.

    Raises DiagnosticError: TST002 for rows of another form, TST006 for a text that is no CSV or a SELECT that fails.
    """
    if rows.items is not None:
        return [_of_item(item, changes=rows.changes) for item in rows.items.items]
    return list(_of_csv(rows) if rows.format is RowsFormat.CSV else _of_sql(rows))


def _of_item(item: Node, *, changes: bool) -> LocatedRow:
    """A row `{column: value}`; a change is `{+I: row}`."""
    found = mapping(item, "a change" if changes else "a row")
    if not changes:
        if len(found.entries) == 1 and found.entries[0][0].text in KINDS:
            refuse(
                item.span,
                "TST002",
                "this is a change and no row",
                help="write `changes:` in place of `rows:` above",
            )
        return LocatedRow(found.entries, item.span)
    if len(found.entries) != 1 or found.entries[0][0].text not in KINDS:
        refuse(
            item.span,
            "TST002",
            f"a change begins with one of {', '.join(KINDS)}",
            help="write `- +I: {column: value}`",
        )
    ((kind, row),) = found.entries
    return LocatedRow(mapping(row, f"the row of `{kind.text}`").entries, row.span, kind.text)


def _of_csv(rows: WrittenRows) -> Iterator[LocatedRow]:
    first = rows.span
    try:
        found = records(rows.text, first.file)
    except DiagnosticError as error:
        at = error.diagnostics[0].span
        line = 1 if at is None else at.line
        raise DiagnosticError(
            Diagnostic("TST006", error.diagnostics[0].message, Span(first.file, first.line + line - 1, 1))
        ) from None
    if not found:
        refuse(
            first, "TST006", "the text has no header", help="write the names of the columns in its first line"
        )
    names = [(cell or "").strip() for cell in found[0][1]]
    for mistake in twice([Scalar(name, True, first) for name in names]):
        raise DiagnosticError(mistake)
    places = names.index(CHANGE) if rows.changes and CHANGE in names else -1
    if rows.changes and places < 0:
        refuse(
            first,
            "TST006",
            f"changes need a column `{CHANGE}`",
            help=f"write {CHANGE}, and +I, -U, +U or -D below",
        )
    for line, cells in found[1:]:
        at = Span(first.file, first.line + line - 1, first.column, len(rows.text.split("\n")[line - 1]) or 1)
        if cells == [None] and len(names) > 1:
            continue  # an empty line
        if len(cells) != len(names):
            refuse(at, "TST006", f"{len(cells)} fields, but {len(names)} columns")
        yield _row(names, cells, at, places)


def _row(names: Sequence[str], cells: Sequence[str | None], at: Span, kind_at: int) -> LocatedRow:
    kind = RowKind.INSERT.value
    if kind_at >= 0:
        kind = one_of(Scalar(cells[kind_at] or "", True, at), f"`{CHANGE}`", KINDS)
    pairs = [pair for i, pair in enumerate(zip(names, cells, strict=True)) if i != kind_at]
    return LocatedRow(tuple((Scalar(n, True, at), _cell(c, at)) for n, c in pairs), at, kind)


def twice(names: Iterable[Scalar]) -> Iterator[Diagnostic]:
    """TST002 for each name that stands a second time, in whatever case."""
    seen: dict[str, Scalar] = {}
    for name in names:
        first = seen.setdefault(name.text.lower(), name)
        if first is not name:
            yield Diagnostic(
                "TST002",
                f"`{name.text}` stands twice",
                name.span,
                (f"first as `{first.text}` on line {first.span.line}: names are the same in capitals",),
                "leave one of them out",
            )


def _cell(text: str | None, at: Span) -> Scalar:
    return Scalar("", True, at) if text is None else Scalar(text, False, at)


def _of_sql(rows: WrittenRows) -> Iterator[LocatedRow]:
    """The rows of a SELECT, each value as its text; those of nested types as JSON."""
    select = rows.text.strip().rstrip(";")
    duck = _closed_session()
    try:
        shape = duck.query_typed(f"SELECT * FROM (\n{select}\n) LIMIT 0")[1]
        items = [
            f"CAST(to_json({quote_identifier(c.name)}) AS VARCHAR) AS {quote_identifier(c.name)}"
            if c.type.kind in NESTED or c.type.kind is Kind.JSON
            else f"CAST({quote_identifier(c.name)} AS VARCHAR) AS {quote_identifier(c.name)}"
            for c in shape
        ]
        found = duck.query(f"SELECT {', '.join(items)} FROM (\n{select}\n)")
    except DataError as error:
        refuse(
            rows.span,
            "TST006",
            f"DuckDB can't run this: {error.message.strip().splitlines()[0]}",
            notes=("the SELECT reads nothing but itself: no file, and no table of the pipeline",),
        )
    names = list(found.column_names)
    kind_at = names.index(CHANGE) if rows.changes and CHANGE in names else -1
    if rows.changes and kind_at < 0:
        refuse(
            rows.span, "TST006", f"changes need a column `{CHANGE}`", help=f"write SELECT '+I' AS {CHANGE}, …"
        )
    columns = [column.to_pylist() for column in found.columns]
    for cells in zip(*columns, strict=True):
        yield _row(names, cells, rows.span, kind_at)


@functools.cache
def _closed_session() -> DuckSession:
    """A session that reads no file and reaches no server."""
    duck = DuckSession()
    duck.connection.execute("SET enable_external_access = false")
    return duck
