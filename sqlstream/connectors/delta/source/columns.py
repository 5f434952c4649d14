"""Columns of a Delta table as types of ours, and whether a table is what is declared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlstream.connectors.delta.source.log import TableShape
from sqlstream.connectors.lakehouse.reading import is_read_as
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMPTZ,
    TINYINT,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
)
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean

#: What readers of a table must know, and what is known here: a file with a deletion vector is refused where it is read.
FEATURES = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
)
_MAPPING = "delta.columnMapping.mode"
_SIMPLE = {
    "boolean": BOOLEAN,
    "byte": TINYINT,
    "short": SMALLINT,
    "integer": INTEGER,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "string": VARCHAR,
    "binary": BLOB,
    "date": DATE,
    "timestamp": TIMESTAMPTZ,
    "timestamp_ntz": TIMESTAMP,
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
#: Partition columns of these types are texts in the log that are no SQL.
_NO_PARTITION = frozenset({Kind.BLOB})
_MOST_NAMED = 20


def type_of(written: Any) -> SqlType | None:
    """A type in Delta's JSON of a schema; None: there is none like it here.

    >>> print(type_of("decimal(10,2)"), type_of({"type": "array", "elementType": "long", "containsNull": True}))
    DECIMAL(10,2) BIGINT[]
    """
    if isinstance(written, str):
        found = _DECIMAL.fullmatch(written)
        return decimal(int(found[1]), int(found[2])) if found else _SIMPLE.get(written)
    match written["type"]:
        case "array":
            element = type_of(written["elementType"])
            return None if element is None else array(element)
        case "map":
            key, value = type_of(written["keyType"]), type_of(written["valueType"])
            return None if key is None or value is None else SqlType(Kind.MAP, key=key, value=value)
        case "struct":
            fields = [(one["name"], type_of(one["type"])) for one in written["fields"]]
            known = tuple((name, type_) for name, type_ in fields if type_ is not None)
            return SqlType(Kind.STRUCT, fields=known) if known and len(known) == len(fields) else None
    return None


def columns_of(shape: TableShape) -> dict[str, SqlType | None]:
    """The table's columns by their names; None: of a type that there is not here."""
    return {one["name"]: type_of(one["type"]) for one in json.loads(shape.schema)["fields"]}


def check_table(
    spec: SourceSpec, shape: TableShape, features: Sequence[str], place: str, *, former: bool = False
) -> None:
    """Raise DiagnosticError (DAT018) for a table that is not what `spec` declares, or that is not understood here.

    `former`: it is the table as it was once, when it may have had no such column yet.
    """
    unknown = sorted({*features} - FEATURES)
    if shape.properties.get(_MAPPING, "none") != "none":
        unknown.append(_MAPPING)
    if unknown:
        raise DiagnosticError(
            Diagnostic(
                "DAT018",
                f"the Delta table of `{spec.name}` needs what can't be read here: {', '.join(unknown)}",
                notes=(f"it is '{place}'",),
                help="take that from the table with the tool that gave it, or read a copy without it",
            )
        )
    wrong = list(_wrong(spec, columns_of(shape), shape.partitioned_by, former=former))
    if wrong:
        raise DiagnosticError(
            Diagnostic(
                "DAT018",
                f"the Delta table of `{spec.name}` is another than is declared",
                notes=(f"it is '{place}'", *wrong),
                help="declare it as it is; columns that are not needed may be left out",
            )
        )


def _wrong(
    spec: SourceSpec, there: Mapping[str, SqlType | None], partitions: Sequence[str], *, former: bool
) -> Iterable[str]:
    by_lower = {name.lower(): name for name in there}
    keys = {name.lower() for name in partitions}
    for column in spec.physical:
        name = by_lower.get(column.name.lower())
        if name is None:
            if former:
                continue
            near = did_you_mean(column.name, list(there))
            listed = ", ".join(list(there)[:_MOST_NAMED]) + (" …" if len(there) > _MOST_NAMED else "")
            yield f"there is no `{column.name}`" + (
                f"; did you mean `{near}`?" if near else f": it has {listed}"
            )
            continue
        type_ = there[name]
        if type_ is None:
            yield f"`{name}` is of a type that can't be read here"
        elif not is_read_as(type_, column.type):
            yield f"`{name}` is {type_} there and {column.type} here"
        elif name.lower() in keys and type_.kind in _NO_PARTITION:
            yield f"`{name}`, by which it is partitioned, is {type_}: such values can't be read from the log"
    declared = {name.lower() for name in spec.partitioned_by}
    if declared and declared != keys:
        yield f"it is partitioned by ({', '.join(partitions)})" if partitions else "it is not partitioned"
