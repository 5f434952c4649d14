"""The tables of a session: what the file and the shell declare, of which sinks and state can be read, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sqlstream.state.relations import Relation, columns_of
from sqlstream_operators.plan.spec import Schema
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Connectors
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.catalog.tables import Catalog, TableDef
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.sql.statements import Column, MetadataColumn, PhysicalColumn

#: The connector of what is no source, and read by the shell itself; no table can name it.
ROWS = ConnectorDescriptor("shell", "rows that the shell reads", roles=(Role.SOURCE,), dimension=True)
#: Tables of state are `state.group_aggregate_1`.
STATE = "state."
#: Where what nobody wrote stands.
_NOWHERE = Span("", 1, 1)


def with_columns(catalog: Catalog, sinks: Mapping[str, Schema]) -> Catalog:
    """The catalog with the columns of tables that are made of a query (CREATE TABLE AS), as far as they are known."""
    tables = {
        name: replace(
            table,
            columns=tuple(PhysicalColumn(c.name, c.type, c.nullable, None, _NOWHERE) for c in sinks[name]),
        )
        if table.as_select is not None and name in sinks
        else table
        for name, table in catalog.tables.items()
    }
    return replace(catalog, tables=MappingProxyType(tables))


def readable(catalog: Catalog, relations: Sequence[Relation]) -> Catalog:
    """The catalog with sinks as tables that can be read, and the relations of the state."""
    tables = {name: t if Role.SOURCE in t.roles else _read_here(t) for name, t in catalog.tables.items()}
    for relation in relations:
        tables[f"{STATE}{relation}".lower()] = _of_state(relation)
    connectors = Connectors(
        (*catalog.connectors.descriptors, ROWS), catalog.connectors.printing, catalog.connectors.elsewhere
    )
    return replace(catalog, tables=MappingProxyType(tables), connectors=connectors)


def _read_here(table: TableDef) -> TableDef:
    """A table that is only written, as one that can be read: its columns are those that are written."""
    columns = tuple(
        PhysicalColumn(c.name, c.type, c.nullable, c.precision, c.span)
        if isinstance(c, MetadataColumn)
        else c
        for c in table.columns
    )
    return _table(table.name, columns, table)


def _of_state(relation: Relation) -> TableDef:
    columns = tuple(PhysicalColumn(c.name, c.type, c.nullable, None, _NOWHERE) for c in columns_of(relation))
    return _table(f"{STATE}{relation}", columns, None)


def _table(name: str, columns: tuple[Column, ...], like: TableDef | None) -> TableDef:
    span = _NOWHERE if like is None else like.span
    return TableDef(
        name,
        columns,
        None if like is None else like.watermark,
        None,
        (),
        ROWS,
        (),
        MappingProxyType({}),
        MappingProxyType({}),
        None,
        False,
        span,
        span,
    )
