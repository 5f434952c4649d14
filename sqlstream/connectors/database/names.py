"""Which table a sink has, and the errors for a table that is not as declared."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.connectors.database.changes import shown
from sqlstream.connectors.database.declared import EPOCHS_TABLE, table_in, wrong_table_name
from sqlstream.connectors.exactly_once.target import Wording
from sqlstream.connectors.options import bad_option
from sqlstream_operators.errors import DataError, TargetError, TargetRowError
from sqlstream_operators.plan.spec import SinkSpec

#: What messages call a table.
WORDING = Wording("table", f"its row in {EPOCHS_TABLE}", "DROP TABLE", "DELETE FROM", "table-name")


def table_name(spec: SinkSpec) -> tuple[str | None, str]:
    """Schema (None: the connection's) and name of the table: `table-name`, or else the sink's name.

    Raises DiagnosticError (OPT003).
    """
    text = spec.options.get("table-name")
    wrong = None if text is None else wrong_table_name(text)
    if text is not None and wrong is not None:
        raise bad_option("table-name", text, wrong)
    return table_in(spec.options, spec.name)


def shape_error(location: str, spec: SinkSpec, there: Sequence[str], wanted: Sequence[str]) -> TargetError:
    """The error for a table that has other columns than the sink."""
    return TargetError(
        f"the table of `{spec.name}` has other columns than the pipeline writes",
        (f"{location} has ({', '.join(there)})", f"the pipeline writes ({', '.join(wanted)})"),
        f"give it these columns (ALTER TABLE); or drop it (DROP TABLE), so that it is created, and run with "
        f"--rewrite {spec.name}; or declare the columns that it has",
    )


def keyless(location: str, spec: SinkSpec) -> TargetError:
    """The error for a table without the PRIMARY KEY that the sink declares."""
    key = ", ".join(spec.primary_key)
    return TargetError(
        f"the table of `{spec.name}` has no PRIMARY KEY ({key}), which the pipeline declares",
        (f"it is {location}",),
        f"add it (ALTER TABLE … ADD PRIMARY KEY ({key})); or drop the table (DROP TABLE), so that it is created with it, "
        f"and run with --rewrite {spec.name}",
    )


def not_reshaped(location: str, what: str, way: str) -> DataError:
    """The error for a table that can't be altered to another schema."""
    return DataError(f"{location} can't be altered: {what}. {way}")


_CAUSES = (
    "either something else changed the table, or the source deletes or repeats rows: declare its PRIMARY KEY, "
    "so that its changes are made consistent"
)
#: What can be wrong with a key of KEYED changes.
MISSING = "is deleted or updated, but the table has no row with this key"
TAKEN = "is inserted, but the table has a row with this key already"


def key_error(location: str, spec: SinkSpec, values: Sequence[object], what: str) -> TargetRowError:
    """The error for a key whose change does not fit the table; `what` is MISSING or TAKEN."""
    return _unfit(location, spec, f"the row with {shown(spec.primary_key, values)} {what}")


def not_there(location: str, spec: SinkSpec, values: Sequence[object]) -> TargetRowError:
    """The error for a row that is deleted more often than the table has it."""
    row = shown([column.name for column in spec.schema], values)
    return _unfit(location, spec, f"the row with {row} is deleted, but the table has fewer copies of it")


def _unfit(location: str, spec: SinkSpec, what: str) -> TargetRowError:
    return TargetRowError(
        f"{location}: {what}",
        (_CAUSES,),
        f"if something else changed it, empty the table (DELETE FROM) and run with --rewrite {spec.name}: it gets "
        "its full result",
    )
