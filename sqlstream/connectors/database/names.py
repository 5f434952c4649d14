"""Which table a sink has, and what to say of a table that is not as declared."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.connectors.database.changes import shown
from sqlstream.connectors.database.declared import EPOCHS_TABLE, split_table_name, wrong_table_name
from sqlstream.connectors.exactly_once.target import Wording
from sqlstream.connectors.options import bad_option
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SinkSpec

#: What messages call a table.
WORDING = Wording("table", f"its row in {EPOCHS_TABLE}", "DROP TABLE", "table-name")


def table_name(spec: SinkSpec) -> tuple[str | None, str]:
    """Schema (None: the connection's) and name of the table: `table-name`, or else the sink's name.

    Raises DiagnosticError (OPT003).
    """
    text = spec.options.get("table-name")
    if text is None:
        return None, spec.name
    wrong = wrong_table_name(text)
    if wrong is not None:
        raise bad_option("table-name", text, wrong)
    return split_table_name(text)


def shape_error(location: str, there: Sequence[str], wanted: Sequence[str]) -> DataError:
    """The error for a table that has other columns than the sink."""
    return DataError(
        f"{location} has the columns ({', '.join(there)}), but the pipeline gives ({', '.join(wanted)}). "
        f"Drop the table, so that it is created, or declare the same columns"
    )


def not_reshaped(location: str, what: str, way: str) -> DataError:
    """The error for a table that can't be brought to another shape."""
    return DataError(f"{location} can't be altered: {what}. {way}")


_CAUSES = (
    "Something else changed the table, or the source deletes or repeats rows: declare its PRIMARY KEY, "
    "so that its changes are made consistent"
)
#: What can be wrong with a key of KEYED changes.
MISSING = "goes or changes, but the table has no row with this key"
TAKEN = "comes, but the table has a row with this key that does not go"


def key_error(location: str, key: Sequence[str], values: Sequence[object], what: str) -> DataError:
    """The error for a key whose change does not fit the table; `what` is MISSING or TAKEN."""
    return DataError(f"{location}: the row with {shown(key, values)} {what}. {_CAUSES}")


def not_there(location: str, names: Sequence[str], values: Sequence[object]) -> DataError:
    """The error for a row that goes more often than the table has it."""
    return DataError(
        f"{location}: the row with {shown(names, values)} goes, but the table does not have it so often. {_CAUSES}"
    )
