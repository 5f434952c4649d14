"""Which data a source table is, and what its columns mean, whatever the table is called.

Every option counts unless the connector's descriptor says that it can't change the rows; so does everything that is
declared of a column but its name's spelling where the data has no names. A new connector whose descriptor says
nothing is told apart too often (state is given up that could have been kept) and never too seldom (wrong rows).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Any

from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.catalog.options import OptionDef, OptionValue, Role, ValueKind, find_option
from sqlstream_planner.catalog.tables import TableDef
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.secrets.masking import without_password
from sqlstream_planner.sql.statements import MetadataColumn, PhysicalColumn

#: Of the form of identities. Another form needs another version, or state would be given away by accident.
VERSION = 1


@dataclass(frozen=True, slots=True)
class ColumnIdentity:
    """What a stored column means within its source; `called` is the user's name of it and no part of the meaning.

    `name`, `position` (from 0, among the columns that are in the data), `metadata` or `partition`: how it is found;
    None where that does not count.
    """

    called: str
    type: str
    name: str | None = None
    position: int | None = None
    metadata: str | None = None
    partition: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data, without what does not count."""
        found = {
            "name": self.name,
            "position": self.position,
            "metadata": self.metadata,
            "partition": self.partition,
            "type": self.type,
        }
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Which rows a source gives, and what its columns mean.

    `options` are those that can change the rows and are not at their default, by key, with values as read: µs, bytes,
    a choice as it is spelled in the descriptor. They and the connector decide what a *position* in the source means.
    What else decides the rows: `partitioned_by`, the `primary_key` of a changelog, and `shape`, the names of
    the columns (their number, where the data has no names) if these decide which rows are well-formed.
    """

    connector: str
    options: tuple[tuple[str, OptionValue], ...]
    columns: tuple[ColumnIdentity, ...]
    shape: tuple[str, ...] | int | None = None
    partitioned_by: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    version: int = VERSION

    @property
    def positions(self) -> dict[str, Any]:
        """What decides positions: which data it is."""
        return {"version": self.version, "connector": self.connector, "options": dict(self.options)}

    @property
    def rows(self) -> dict[str, Any]:
        """What decides which rows there are, whatever is read of them."""
        found: dict[str, Any] = dict(self.positions)
        if self.shape is not None:
            found["shape"] = list(self.shape) if isinstance(self.shape, tuple) else self.shape
        if self.partitioned_by:
            found["partitioned_by"] = list(self.partitioned_by)
        if self.primary_key:
            found["primary_key"] = list(self.primary_key)
        return found

    @property
    def text(self) -> str:
        """What decides positions, as compact JSON that is the same for the same meaning."""
        return compact(self.positions)

    def known_as(self, moved: Mapping[str, str]) -> SourceIdentity:
        """The identity under which state knows this data: `moved` has texts of identities by those that are declared.

        "" stands for data that is elsewhere now: what is still declared there is another source.

        >>> here = SourceIdentity("files", (("path", "new"),), ())
        >>> old = SourceIdentity("files", (("path", "old"),), ())
        >>> here.known_as({here.text: old.text, old.text: ""}) == old
        True
        >>> old.known_as({here.text: old.text, old.text: ""}).text
        '{"connector":"files","options":{"moved away":true,"path":"old"},"version":1}'
        """
        if self.text not in moved:
            return self
        kept = moved[self.text]
        options = json.loads(kept)["options"] if kept else {**dict(self.options), "moved away": True}
        return replace(self, options=tuple(sorted(options.items())))

    def column(self, name: str) -> dict[str, Any]:
        """What the column that the table calls `name` (ignoring case) means. Raises InternalError if it is not stored."""
        for found in self.columns:
            if found.called.lower() == name.lower():
                return {"source": self.rows, **found.to_json()}
        raise InternalError(f"{name!r} is no stored column of the source")

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain JSON data."""
        return {**self.rows, "columns": [c.to_json() for c in self.columns]}


def compact(data: Mapping[str, Any]) -> str:
    """JSON in one line, keys sorted.

    >>> compact({"b": 1, "a": [True]})
    '{"a":[true],"b":1}'
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


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
    format_ = table.settings.get("format")
    known = descriptor.concerned(format_)
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
    lookup = descriptor.lookup_with(table.settings)
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
    changelog = descriptor.gives_changes(format_)
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
