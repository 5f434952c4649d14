"""Which data a source table is, and what its columns mean, whatever the table is called.

Every option counts unless the connector's descriptor says that it can't change the rows; so does everything that is
declared of a column but its name's spelling where the data has no names. A new connector whose descriptor says
nothing is distinguished too often (state is given up that could have been kept) and never too seldom (wrong rows).
"""

from __future__ import annotations

from decimal import Context, Decimal

from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.catalog.options import OptionDef, OptionValue, Role, ValueKind, find_option
from sqlstream_planner.catalog.source_identity import ColumnIdentity, SourceIdentity
from sqlstream_planner.catalog.tables import TableDef
from sqlstream_planner.sql.statements import MetadataColumn, PhysicalColumn
from sqlstream_planner.text.masking import without_password


def source_identity(table: TableDef, descriptor: ConnectorDescriptor) -> SourceIdentity:
    """The identity of a table that is read.

    >>> from sqlstream_planner.catalog.script import read_catalog
    >>> from sqlstream_planner.sql.parse import parse_file
    >>> from sqlstream_planner.testing import CONNECTORS
    >>> text = "CREATE TABLE t (a INT, b AS a + 1) WITH ('connector' = 'rows', 'count' = '03', 'wait' = '1 s')"
    >>> table = read_catalog(parse_file(text), CONNECTORS).table("t")
    >>> found = source_identity(table, table.descriptor)
    >>> found.text
    '{"connector":"rows","options":{"count":3},"version":1}'
    >>> found.column("a")["position"], found.column("a")["type"]
    (0, 'INTEGER')
    """
    known = descriptor.concerned(table.settings)
    options = []
    for option in table.options:
        definition = find_option(known, option.key)
        if definition is not None and _counts(definition):
            value = option_value(definition, option.value)
            if definition.default is None or value != option_value(definition, definition.default):
                options.append((option.key, value))
    named = descriptor.sink.named_by
    if named and named not in table.settings:
        options.append((named, table.name))
    lookup = descriptor.source_lookup_with(table.settings)
    partitions = {name.lower() for name in table.partitioned_by}
    inside = [c for c in table.columns if isinstance(c, PhysicalColumn) and c.name.lower() not in partitions]
    names = tuple(c.name.lower() if lookup.any_case else c.name for c in inside)
    shape: tuple[str, ...] | int | None = None if lookup.alone else names if lookup.by_name else len(names)
    columns = []
    for c in table.columns:
        if isinstance(c, MetadataColumn):
            columns.append(ColumnIdentity(c.name, str(c.type), metadata=c.key))
        elif isinstance(c, PhysicalColumn) and c.name.lower() in partitions:
            columns.append(ColumnIdentity(c.name, str(c.type), partition=c.name))
        elif isinstance(c, PhysicalColumn):
            place = inside.index(c)
            columns.append(
                ColumnIdentity(
                    c.name,
                    str(c.type),
                    name=names[place] if lookup.by_name else None,
                    position=place if lookup.by_position else None,
                )
            )
    changelog = descriptor.gives_changes(table.settings)
    return SourceIdentity(
        connector=descriptor.name,
        options=tuple(sorted(options)),
        columns=tuple(columns),
        shape=shape,
        partitioned_by=table.partitioned_by,
        primary_key=table.primary_key.columns if changelog and table.primary_key is not None else (),
    )


def option_value(option: OptionDef, text: str) -> OptionValue:
    """What an option's text means, exactly: two numbers that are one as a double are still two.

    >>> from sqlstream_planner.catalog.options import ValueKind
    >>> number = OptionDef("n", ValueKind.NUMBER, "")
    >>> option_value(number, "1.50"), option_value(number, "9007199254740993")
    ('1.5', '9007199254740993')
    """
    if option.kind is ValueKind.NUMBER:
        number = Decimal(text.strip())
        return str(number.normalize(Context(prec=max(1, len(number.as_tuple().digits)))))
    value = option.read(text)
    return without_password(value) if isinstance(value, str) else value


def _counts(option: OptionDef) -> bool:
    return option.changes_rows and not option.secret and Role.SOURCE in option.roles
