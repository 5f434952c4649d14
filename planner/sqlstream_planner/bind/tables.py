"""Declared tables as scans and sinks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream_operators.plan.spec import Column as PlanColumn
from sqlstream_operators.plan.spec import MetadataColumn as PlanMetadata
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec, WatermarkSpec
from sqlstream_operators.plan.types import TIMESTAMPTZ
from sqlstream_planner.bind.context import BindContext, ReadTable
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope, is_process_time
from sqlstream_planner.bind.written_values import checked
from sqlstream_planner.catalog.lookup_options import reload_us
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.catalog.source_options import idle_timeout_us, max_ahead_us
from sqlstream_planner.catalog.tables import Catalog, TableDef
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, either
from sqlstream_planner.identity.source import source_identity
from sqlstream_planner.logical import (
    ColumnId,
    EventTime,
    Field,
    Fields,
    Node,
    Project,
    Scan,
    column,
    sql,
    substitute,
)
from sqlstream_planner.sql.statements import ComputedColumn, MetadataColumn, PhysicalColumn


def instead_of_unknown(name: str, near: str | None) -> str:
    """What to write in place of a table that nothing declares; `near`: one that may be meant.

    >>> instead_of_unknown("t", None)
    'declare it with CREATE TABLE t (…) WITH (…)'
    """
    return f"did you mean `{near}`?" if near else f"declare it with CREATE TABLE {name} (…) WITH (…)"


@dataclass(slots=True)
class Tables:
    """Binds references to the tables of one catalog; a table that is read twice is one source."""

    context: BindContext
    catalog: Catalog
    reading: dict[str, str] = field(default_factory=dict)
    writing: dict[str, str] = field(default_factory=dict)

    def find(self, name: str, node: exp.Expr) -> TableDef:
        """The table called `name`; a diagnostic at `node` if there is none."""
        table = self.catalog.table(name)
        if table is None and name.lower() in self.catalog.broken:
            raise DiagnosticError  # what is wrong with it is reported already
        if table is None:
            known = self.catalog.names
            near = self.catalog.meant(name)
            self.context.fail(
                node,
                "SQL013",
                f"unknown table `{name}`",
                notes=(f"this file declares {', '.join(f'`{k}`' for k in known) or 'no tables'}",),
                help=instead_of_unknown(name, near),
            )
        return table

    def scan(self, table: TableDef, node: exp.Expr) -> Node:
        """A scan of `table` with its computed columns, its time column marked."""
        streamed = Role.SOURCE in table.roles
        if not streamed and not table.is_dimension:
            self.context.fail(
                node,
                "SQL014",
                f"`{table.name}` can't be read: connector `{table.connector}` is only a sink",
                help="read from another table, or use a connector that is a source",
            )
        self._not_both(table, node, self.reading, self.writing)
        physical = tuple(
            PlanColumn(c.name, c.type, c.nullable) for c in table.columns if isinstance(c, PhysicalColumn)
        )
        metadata = tuple(
            PlanMetadata(c.name, c.key, c.type) for c in table.columns if isinstance(c, MetadataColumn)
        )
        stored: dict[str, Field] = {}
        for c in table.columns:
            if isinstance(c, PhysicalColumn | MetadataColumn):
                stored[c.name.lower()] = Field(self.context.new_id(c.name), c.name, c.type, c.nullable)
        scope = Scope(self.context, (Relation(_own_name(table), tuple(stored.values())),))
        fields: list[Field] = []
        expressions: list[exp.Expr] = []
        times: list[int] = []  # columns of process time
        changelog = table.descriptor.gives_changes(table.settings)
        for c in table.columns:
            if isinstance(c, ComputedColumn) and is_process_time(c.expression):
                fields.append(Field(self.context.new_id(c.name), c.name, TIMESTAMPTZ, True))
                # Rows that go again can't be given the clock that they came with.
                nothing = exp.Cast(this=exp.Null(), to=exp.DataType.build("TIMESTAMPTZ"))
                clock = self.context.volatile.process_time(c.name, self.context.span(node))
                expressions.append(nothing if changelog else clock)
                times.append(len(fields) - 1)
            elif isinstance(c, ComputedColumn):
                resolved = self.context.translated(scope.resolve(c.expression), scope.fields)
                typed = self.context.type_of(resolved, scope.fields)
                fields.append(Field(self.context.new_id(c.name), c.name, typed.type, typed.nullable))
                expressions.append(resolved)
            elif isinstance(c, PhysicalColumn) and c.exact is not None:
                fields.append(Field(self.context.new_id(c.name), c.name, c.type, c.nullable))
                expressions.append(checked(column(stored[c.name.lower()].id), c.exact, c.type))
            else:
                fields.append(stored[c.name.lower()])
                expressions.append(column(stored[c.name.lower()].id))
        self._of_process_time([fields[i].id for i in times], changelog)
        watermark, read_by_watermark = self._watermark(table, tuple(fields), expressions, stored)
        identity = source_identity(table, table.descriptor).known_as(self.catalog.moved)
        if stored:
            read = ReadTable(table, self.context.span(node))
            self.context.read_tables[next(iter(stored.values())).id] = read
        spec = SourceSpec(
            name=table.name,
            connector=table.connector,
            options=dict(table.stored),
            physical=physical,
            columns=tuple(c.name for c in physical),
            metadata=metadata,
            watermark=watermark,
            partitioned_by=table.partitioned_by,
            primary_key=table.primary_key.columns if table.primary_key is not None else (),
            identity=identity.text,
        )
        if watermark is not None:
            time = EventTime((table.name,), watermark.tick_us, direct=True)
            fields = [
                replace(f, time=time) if f.name.lower() == watermark.column.lower() else f for f in fields
            ]
        names = (
            {name.lower() for name in table.primary_key.columns} if table.primary_key is not None else set()
        )
        scan = Scan(
            spec,
            identity,
            tuple(self._with_time(f, fields) for f in stored.values()),
            changelog,
            tuple(ColumnId(f.id) for f in stored.values() if changelog and f.name.lower() in names),
            self.context.clauses.default_ttl_us if changelog else None,
            None if streamed else reload_us(table.settings),
            read_by_watermark,
        )
        stands_as_read = all(isinstance(e, exp.Column) for e in expressions)
        if stands_as_read and not any(isinstance(c, ComputedColumn) for c in table.columns):
            return scan
        # A computed column is a new column: the stored ones keep their ids through the projection.
        renamed = [replace(f, id=self.context.new_id(f.name)) for f in fields]
        self._of_process_time([renamed[i].id for i in times], changelog)
        return Project(scan, tuple(renamed), tuple(expressions))

    def _of_process_time(self, ids: Collection[str], changelog: bool) -> None:
        self.context.process_times.update(ids)
        if changelog:
            self.context.unread_times.update(ids)

    @staticmethod
    def _with_time(stored: Field, fields: list[Field]) -> Field:
        return next((f for f in fields if f.id == stored.id), stored)

    def _watermark(
        self, table: TableDef, fields: Fields, expressions: list[exp.Expr], stored: dict[str, Field]
    ) -> tuple[WatermarkSpec | None, tuple[exp.Expr, ...]]:
        """The watermark of a table, and the expressions that it is computed of, over stored columns by their names."""
        mark = table.watermark
        if mark is None:
            return None, ()
        if len(mark.column) > 1:
            raise DiagnosticError(
                Diagnostic(
                    "SQL015",
                    f"the watermark is on the nested field `{'.'.join(mark.column)}`",
                    mark.column_span,
                    help=f"make a computed column of it: `ts AS {'.'.join(mark.column)}`, and write WATERMARK FOR ts",
                )
            )
        scope = Scope(self.context, (Relation(_own_name(table), fields),))
        resolved = self.context.translated(scope.resolve(mark.expression), scope.fields)
        typed = self.context.type_of(resolved, scope.fields)
        if not typed.type.is_timestamp:
            raise DiagnosticError(
                Diagnostic(
                    "SQL015",
                    f"the watermark's expression is {typed.type}, not a timestamp",
                    self.context.span(mark.expression),
                    help=f"write WATERMARK FOR {mark.column[0]} AS {mark.column[0]} - INTERVAL '5' SECOND",
                )
            )
        # In terms of what the reader delivers: computed columns put in, ids back to the table's own names.
        inlined = substitute(resolved, {f.id: e for f, e in zip(fields, expressions, strict=True)})
        names = {f.id: column(f.name) for f in stored.values()}
        declared = table.column(mark.column[0])
        precision = getattr(declared, "precision", None)
        expression = substitute(inlined, names)
        times = [
            e for f, e in zip(fields, expressions, strict=True) if f.name.lower() == mark.column[0].lower()
        ]
        computed = [substitute(e, names) for e in times if not isinstance(e, exp.Column)]
        name = declared.name if declared is not None else mark.column[0]
        spec = WatermarkSpec(
            column=name,
            expression=sql(expression),
            tick_us=1_000 if precision is not None and precision <= 3 else 1,
            idle_timeout_us=idle_timeout_us(table.settings, self.catalog.settings),
            rises_with=_rises_with(expression),
            max_ahead_us=max_ahead_us(table.settings),
            time=sql(computed[0]) if computed else None,
        )
        return spec, (expression, computed[0] if computed else column(name))

    def sink(self, table: TableDef, node: exp.Expr | None) -> SinkSpec:
        """The spec of writing to `table`; its computed and virtual columns are not written."""
        if Role.SINK not in table.roles:
            raise DiagnosticError(
                Diagnostic(
                    "SQL016",
                    f"`{table.name}` can't be written: connector `{table.connector}` is only a source",
                    self.context.span(node) if node is not None else table.span,
                    help=f"INSERT INTO a table with connector {either(self.catalog.connectors.sinks())}",
                )
            )
        self._not_both(table, node, self.writing, self.reading)
        columns = tuple(
            PlanColumn(c.name, c.type, c.nullable)
            for c in table.columns
            if isinstance(c, PhysicalColumn) or (isinstance(c, MetadataColumn) and not c.virtual)
        )
        return SinkSpec(
            name=table.name,
            connector=table.connector,
            options=dict(table.stored),
            schema=columns,
            primary_key=table.primary_key.columns if table.primary_key is not None else (),
            partitioned_by=table.partitioned_by,
            metadata=tuple(
                (c.name, c.key) for c in table.columns if isinstance(c, MetadataColumn) and not c.virtual
            ),
        )

    def _not_both(
        self, table: TableDef, node: exp.Expr | None, mine: dict[str, str], others: dict[str, str]
    ) -> None:
        mine[table.name] = table.name
        if table.name in others:
            diagnostic = Diagnostic(
                "SQL017",
                f"`{table.name}` is both read and written in this file",
                self.context.span(node) if node is not None else table.span,
                notes=("a pipeline that reads what it writes never ends",),
                help="use two tables",
            )
            raise DiagnosticError(diagnostic)


def _own_name(table: TableDef) -> str | None:
    """What the columns of a table may be qualified with where it is declared: `a.b` is a field of the column `a` first."""
    return None if table.column(table.name) is not None else table.name


def _rises_with(expression: exp.Expr) -> str | None:
    """The column that an expression never falls with, if it is the column itself or less a constant interval.

    >>> import sqlglot
    >>> _rises_with(sqlglot.parse_one("ts - INTERVAL '4' SECOND")), _rises_with(sqlglot.parse_one("least(ts, u)"))
    ('ts', None)
    """
    expression = expression.unnest()
    if isinstance(expression, exp.Sub) and isinstance(expression.expression, exp.Interval):
        constant = expression.expression.find(exp.Column) is None
        return _rises_with(expression.this) if constant else None
    return expression.name if isinstance(expression, exp.Column) and not expression.table else None
