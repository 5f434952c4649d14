"""What the `spark` connector is, to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, Settings
from sqlstream_planner.catalog.lookup_options import LOOKUP_OPTIONS, wrong_lookup
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import CreateTable

_SOURCE = (Role.SOURCE,)
_S = ValueKind.STRING


def _wrong(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    yield from wrong_lookup(table, settings)
    written = {option.key: option for option in table.options}
    named, format_ = written.get("table-name"), written.get("format")
    if named is None and format_ is None:
        yield Diagnostic(
            "OPT004",
            f"table `{table.name}` has neither 'table-name' nor 'format'",
            table.name_span,
            help="add 'table-name' = 'database.table' of Spark's catalog, or 'format' = 'orc' and 'path' = '…'",
        )
    for key in ("format", "path"):
        if named is not None and key in written:
            yield Diagnostic(
                "OPT003",
                f"a table of Spark's catalog ('table-name') has no '{key}'",
                written[key].key_span,
                help=f"leave out '{key}', or 'table-name'",
            )
    if "path" in written and named is None and format_ is None:
        return
    for option in table.options:
        if option.key in ("table-name", "format", "path") and not option.value.strip():
            yield Diagnostic("OPT003", f"option '{option.key}' is empty", option.value_span)


DESCRIPTOR = ConnectorDescriptor(
    "spark",
    "any table or format that Spark reads, once (ours)",
    _SOURCE,
    (
        OptionDef("table-name", _S, "a table or view of Spark's catalog", roles=_SOURCE),
        OptionDef("format", _S, "a format that Spark reads: orc, parquet, text, avro …", roles=_SOURCE),
        OptionDef("path", ValueKind.PATH, "what the format reads: a file, folder or pattern", roles=_SOURCE),
        OptionDef("options.*", _S, "an option of Spark's reader, by its name there", roles=_SOURCE),
        *LOOKUP_OPTIONS,
    ),
    dimension=True,
    lookup=ColumnLookup(by_position=False, any_case=False),
    validate=_wrong,
)
