"""Whether a table that Spark reads has the columns that are declared, in types whose values are all of the declared ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlstream.connectors.api import SparkColumn
from sqlstream_operators.plan.spec import Schema
from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean

_WHOLE = (Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT)
_MOST_NAMED = 20


def check_columns(
    table: str, declared: Schema, there: Sequence[SparkColumn], location: str, code: str = "DAT018"
) -> None:
    """Raise DiagnosticError with all differences, and what to declare."""
    wrong = list(_wrong(declared, there))
    if not wrong:
        return
    by_name = {one.name: one for one in there}
    as_they_are = [
        f"`{column.name}` {found.type}"
        for column in declared
        if (found := by_name.get(column.name)) is not None and found.type is not None
    ]
    raise DiagnosticError(
        Diagnostic(
            code,
            f"the table of `{table}` has other columns than are declared",
            notes=(f"it is {location}", *wrong),
            help=f"declare ({', '.join(as_they_are)}); columns that are not needed may be left out"
            if as_they_are
            else "declare them as they are; columns that are not needed may be left out",
        )
    )


def _wrong(declared: Schema, there: Sequence[SparkColumn]) -> Iterator[str]:
    names = [one.name for one in there]
    for column in declared:
        found = next((one for one in there if one.name == column.name), None)
        if found is None:
            near = did_you_mean(column.name, names)
            listed = ", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")
            yield f"there is no `{column.name}`" + (
                f"; did you mean `{near}`?" if near else f": it has {listed}"
            )
        elif sum(name.lower() == column.name.lower() for name in names) > 1:
            yield f"`{column.name}` is there more than once, ignoring case, as Spark does"
        elif found.type is None:
            yield f"`{column.name}` is {found.written} in Spark, which can't be read here: cast it in a view"
        elif not is_read_as(found.type, column.type):
            yield f"`{column.name}` is {found.type} ({found.written} in Spark) there and {column.type} here"


def is_read_as(there: SqlType, declared: SqlType) -> bool:
    """Whether each value of a column of Spark's is one of the declared type.

    >>> from sqlstream_operators.plan.types import BIGINT, INTEGER, TIMESTAMP, TIMESTAMPTZ, array, decimal
    >>> is_read_as(INTEGER, BIGINT), is_read_as(BIGINT, INTEGER), is_read_as(TIMESTAMPTZ, TIMESTAMP)
    (True, False, False)
    >>> is_read_as(decimal(8, 2), decimal(10, 2)), is_read_as(array(INTEGER), array(BIGINT))
    (True, False)
    """
    if there == declared:
        return True
    match there.kind:
        case Kind.TINYINT | Kind.SMALLINT | Kind.INTEGER:
            return declared.kind in _WHOLE and _WHOLE.index(there.kind) < _WHOLE.index(declared.kind)
        case Kind.FLOAT:
            return declared.kind is Kind.DOUBLE
        case Kind.DECIMAL if declared.kind is Kind.DECIMAL:
            scales = (there.scale or 0), (declared.scale or 0)
            before = (there.precision or 0) - scales[0], (declared.precision or 0) - scales[1]
            return scales[0] <= scales[1] and before[0] <= before[1]
    return False
