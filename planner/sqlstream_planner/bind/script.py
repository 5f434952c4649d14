"""A whole file: every INSERT, bare SELECT and CREATE TABLE AS becomes a sink over a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from sqlglot import exp

from sqlstream_operators.plan.schema import RESERVED
from sqlstream_operators.plan.spec import Column, JobOptions, RestartOptions, SinkSpec
from sqlstream_operators.plan.types import VARCHAR, Kind, SqlType
from sqlstream_planner.bind.context import BindContext, Clauses, fresh
from sqlstream_planner.bind.epoch_values import Volatile, with_epoch_values
from sqlstream_planner.bind.lookup import refuse_streamed_dimensions
from sqlstream_planner.bind.query import QueryBinder
from sqlstream_planner.bind.set_operations import union_of
from sqlstream_planner.bind.sink_columns import assigned, exactly, filled_up, written_item
from sqlstream_planner.bind.tables import Tables, instead_of_unknown
from sqlstream_planner.catalog.columns import reserved_name
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, nested_too_deeply
from sqlstream_planner.expressions.constants import Constant
from sqlstream_planner.logical import ConflictAction, Node, Project, Sink, column
from sqlstream_planner.sql.datatypes import nulls_as
from sqlstream_planner.sql.dialect import function_name
from sqlstream_planner.sql.parse import Script
from sqlstream_planner.sql.problems import UNSUPPORTED_EXPRESSION, UNTYPED_HELP
from sqlstream_planner.sql.qualified import name_of
from sqlstream_planner.sql.statements import (
    CreateTable,
    CreateView,
    InsertInto,
    Select,
    StatementSet,
)


def _without_fields(item: exp.Expr) -> exp.Expr | None:
    """The `{}` or ROW() in an expression; None if there is none."""
    rows = (n for n in item.walk() if isinstance(n, exp.Struct) or function_name(n) in ("ROW", "STRUCT_PACK"))
    return next((row for row in rows if not row.expressions), None)


@dataclass(frozen=True, slots=True)
class Bound:
    """A file's relational algebra: one root per sink, the job's options, warnings, and constants to try without a row."""

    roots: tuple[Sink, ...]
    options: JobOptions
    warnings: tuple[Diagnostic, ...]
    constants: Mapping[Constant, Span]


def bind_script(script: Script, catalog: Catalog) -> Bound:
    """Bind every statement of a file. Raises DiagnosticError with the mistakes of all statements."""
    return _ScriptBinder(script, catalog).bind()


@dataclass(slots=True)
class _Write:
    sink: SinkSpec
    inputs: list[Node] = field(default_factory=list)
    at: exp.Expr | None = None
    insert: InsertInto | None = None


class _ScriptBinder:
    def __init__(self, script: Script, catalog: Catalog) -> None:
        self._script = script
        self._catalog = catalog
        ttl, lateness = (
            catalog.settings.get(f"table.exec.{key}") for key in ("state.ttl", "emit.allow-lateness")
        )
        ttl_us = ttl if isinstance(ttl, int) and ttl else None
        lateness_us = lateness if isinstance(lateness, int) else 0
        clauses = Clauses(ttl_us, lateness_us, ttl_us)
        zone = str(catalog.settings["table.local-time-zone"])
        self._context = BindContext(
            script.rendered, catalog.connectors, clauses=clauses, volatile=Volatile(zone)
        )
        self._tables = Tables(self._context, catalog)
        self._queries = QueryBinder(self._context, self._table)
        self._views: dict[str, Node] = {}
        self._binding: list[str] = []
        self._writes: dict[str, _Write] = {}
        self._errors: list[Diagnostic] = []

    def bind(self) -> Bound:
        selects = 0
        for statement in self._script.statements:
            match statement:
                case InsertInto():
                    self._attempt(partial(self._insert, statement), statement.query)
                case StatementSet():
                    for insert in statement.inserts:
                        self._attempt(partial(self._insert, insert), insert.query)
                case CreateTable() if statement.as_select is not None:
                    self._attempt(partial(self._create_as, statement), statement.as_select)
                case Select():
                    selects += 1
                    self._attempt(partial(self._select, statement, selects), statement.query)
        if self._errors:
            raise DiagnosticError(*self._errors)
        if not self._writes:
            raise DiagnosticError(
                Diagnostic(
                    "SQL050",
                    "the file writes nothing",
                    Span(self._script.rendered.file, 1, 1),
                    help="add INSERT INTO a_sink SELECT …, or a SELECT by itself, whose result is printed",
                )
            )
        roots = tuple(self._root(write) for write in self._writes.values())
        refuse_streamed_dimensions(self._context, roots)
        roots = with_epoch_values(roots, self._context.volatile, self._context.new_id, self._context.span)
        warnings = (*self._catalog.warnings, *self._context.warnings)
        return Bound(roots, self._options(), warnings, MappingProxyType(self._context.constants))

    def _attempt(self, bind: Callable[[], None], query: exp.Expr) -> None:
        try:
            bind()
        except RecursionError:
            self._errors.append(nested_too_deeply(self._context.span(query)))
        except DiagnosticError as error:
            self._errors.extend(d for d in error.diagnostics if d not in self._errors)

    def _root(self, write: _Write) -> Sink:
        inputs = write.inputs
        node = inputs[0]
        if len(inputs) > 1:
            node = union_of(self._context, write.at or exp.Null(), tuple(inputs))
        insert = write.insert
        return Sink(
            node,
            write.sink,
            write.sink.name,
            ConflictAction(insert.conflict) if insert is not None and insert.conflict is not None else None,
            self._context.clauses.default_ttl_us,
            self._context.span(write.at) if write.at is not None else None,
            insert.conflict_span if insert is not None else None,
            self._context.connectors,
        )

    # ------------------------------------------------------------------------------------------- statements

    def _insert(self, statement: InsertInto) -> None:
        if statement.table.lower() in self._catalog.broken:
            self._bind_query(statement.query)
            return
        table = self._catalog.table(statement.table)
        if table is None:
            known = self._catalog.names
            near = self._catalog.meant(statement.table)
            raise DiagnosticError(
                Diagnostic(
                    "SQL013",
                    f"unknown table `{statement.table}`",
                    statement.table_span,
                    (f"this file declares {', '.join(f'`{k}`' for k in known) or 'no tables'}",),
                    instead_of_unknown(statement.table, near),
                )
            )
        if statement.overwrite:
            raise DiagnosticError(
                Diagnostic(
                    "SQL100", "INSERT OVERWRITE can't be run yet", statement.span, help="write INSERT INTO"
                )
            )
        node = self._bind_query(statement.query)
        sink = self._tables.sink(table, statement.query)
        before = self._writes.get(sink.name)
        if before is not None and before.insert is not None and before.insert.conflict != statement.conflict:
            raise DiagnosticError(
                Diagnostic(
                    "SQL073",
                    f"two INSERTs into `{sink.name}` with another ON CONFLICT",
                    statement.conflict_span or statement.table_span,
                    ("all INSERTs into a table are one sink",),
                    "write the same ON CONFLICT behind each",
                )
            )
        self._write(sink, assigned(self._context, self._catalog, statement, sink, node), statement.query)
        self._writes[sink.name].insert = statement

    def _create_as(self, statement: CreateTable) -> None:
        assert statement.as_select is not None
        table = self._catalog.table(statement.name)
        node = self._bind_query(statement.as_select)
        if table is None or statement.name.lower() in self._catalog.broken:
            return  # what is wrong with its declaration is reported already
        self._unique_names(node, statement.as_select)
        self._known_types(node, statement.as_select)
        spec = self._tables.sink(table, None)
        declared = {c.name.lower(): c for c in spec.schema}
        given = tuple(
            declared.pop(
                f.name.lower(),
                Column(f.name, nulls_as(f.type, VARCHAR), f.nullable),
            )
            for f in node.fields
        )
        spec = replace(spec, schema=(*declared.values(), *given))
        self._write(
            spec,
            filled_up(
                self._context, self._catalog, node, statement.as_select, spec, given, statement.name_span
            ),
            statement.as_select,
        )

    def _select(self, statement: Select, number: int) -> None:
        node = self._bind_query(statement.query)
        self._known_types(node, statement.query)
        name = "result" if number == 1 else f"result_{number}"
        names: dict[str, int] = {}
        schema = []
        for f in node.fields:
            names[f.name.lower()] = names.get(f.name.lower(), 0) + 1
            shown = f.name if names[f.name.lower()] == 1 else f"{f.name}_{names[f.name.lower()]}"
            schema.append(Column(shown, nulls_as(f.type, VARCHAR), f.nullable))
        self._known_types(node, statement.query)
        spec = SinkSpec(name, self._catalog.connectors.printing, {}, tuple(schema))
        self._write(spec, exactly(node, spec, self._context), statement.query)

    def _known_types(self, node: Node, query: exp.Expr) -> None:
        """A sink whose columns are the query's must know their types."""
        for position, f in enumerate(node.fields):
            if not f.type.is_known:
                item = written_item(query, position, f)
                fieldless = _without_fields(item)
                if fieldless is not None:
                    self._context.fail(
                        fieldless,
                        UNSUPPORTED_EXPRESSION,
                        f"`{f.name}` has a struct without fields, which no column can hold",
                        help="leave it out, write NULL, or give it a field: {'x': NULL}",
                    )
                self._context.fail(
                    item,
                    UNSUPPORTED_EXPRESSION,
                    f"the type of `{f.name}` is not known, so no column can be made for it",
                    help=UNTYPED_HELP,
                )

    def _unique_names(self, node: Node, query: exp.Expr) -> None:
        seen: set[str] = set()
        for f in node.fields:
            if f.name.lower() in seen:
                self._context.fail(
                    query,
                    "SQL054",
                    f"two columns are called `{f.name}`",
                    help="give one of them another name with AS",
                )
            seen.add(f.name.lower())

    def _write(self, sink: SinkSpec, node: Node, at: exp.Expr) -> None:
        connector = self._catalog.connectors[sink.connector]
        format_ = connector.format(sink.options.get("format"))
        what, not_written = f"a table of the connector '{connector.name}'", connector.sink.not_written
        if format_ is not None:
            what, not_written = f"a file in the format '{format_.name}'", format_.not_written
        for position, (f, c) in enumerate(zip(node.fields, sink.schema, strict=True)):
            if c.name.lower() in RESERVED:
                place = self._context.span(written_item(at, position, f))
                raise DiagnosticError(reserved_name(c.name, place))
            if _has_one_of(c.type, not_written):
                self._context.fail(
                    written_item(at, position, f),
                    "SQL053",
                    f"column `{c.name}` of `{sink.name}` is {c.type}, which {what} can't hold",
                    help=f"write CAST({c.name} AS VARCHAR)",
                )
        write = self._writes.setdefault(sink.name, _Write(sink, at=at))
        write.inputs.append(node)

    # ----------------------------------------------------------------------------------------------- tables

    def _table(self, item: exp.Table) -> Node:
        name = name_of(item)
        view = self._catalog.view(name)
        if view is None:
            return self._tables.scan(self._tables.find(name, item), item)
        if view.name.lower() in self._binding:
            self._context.fail(
                item,
                "SQL055",
                f"view `{view.name}` reads itself",
                help="a view can only read what is declared before it",
            )
        node = self._view(view, item)
        fields = tuple(fresh(f, self._context) for f in node.fields)
        return Project(node, fields, tuple(column(f.id) for f in node.fields))

    def _bind_query(self, query: exp.Expr) -> Node:
        """The node of a statement's query. The views that it reads are bound first, the deepest before all.

        They would be bound where they are met, too, but a chain of views would nest calls as deep as it is long.
        """
        stack = [(name, False) for name in _tables_of(query)]
        entered: set[str] = set()
        while stack:
            name, read = stack.pop()
            view = self._catalog.view(name)
            if view is None or view.name.lower() in self._views:
                continue
            if read:
                self._view(view, view.query)
            elif view.name.lower() not in entered:  # else it reads itself, which is refused where it is bound
                entered.add(view.name.lower())
                stack.append((name, True))
                stack += [(below, False) for below in _tables_of(view.query)]
        return self._queries.bind_statement(query)

    def _view(self, view: CreateView, item: exp.Expr) -> Node:
        key = view.name.lower()
        if key not in self._views:
            self._binding.append(key)
            try:
                with self._context.apart():
                    node = self._queries.bind_statement(view.query)
            finally:
                self._binding.pop()
            if view.columns:
                node = self._view_columns(view.columns, node, item)
            else:
                self._unique_names(node, view.query)
            self._views[key] = node
        return self._views[key]

    def _view_columns(self, names: tuple[str, ...], node: Node, item: exp.Expr) -> Node:
        if len(names) != len(node.fields):
            self._context.fail(
                item, "SQL032", f"the view names {len(names)} columns, but its query gives {len(node.fields)}"
            )
        fields = tuple(fresh(f, self._context, n) for f, n in zip(node.fields, names, strict=True))
        return Project(node, fields, tuple(column(f.id) for f in node.fields))

    # ---------------------------------------------------------------------------------------------- options

    def _options(self) -> JobOptions:
        settings = self._catalog.settings

        def number(key: str) -> int | None:
            value = settings.get(key)
            return int(value) if isinstance(value, int) else None

        def text(key: str) -> str | None:
            value = settings.get(key)
            return str(value) if value is not None else None

        share = settings.get("execution.max-dead-letter-share")
        return JobOptions(
            name=text("pipeline.name"),
            parallelism=number("parallelism.default"),
            max_parallelism=number("pipeline.max-parallelism") or 128,
            max_rows_per_epoch=number("execution.max-rows-per-epoch"),
            max_files_per_epoch=number("execution.max-files-per-epoch"),
            single_task_rows=number("execution.single-task-rows"),
            task_memory_bytes=number("execution.task-memory"),
            target_epoch_us=number("execution.target-epoch-time"),
            state_dir=text("state.dir"),
            max_dead_letters=number("execution.max-dead-letters"),
            max_dead_letter_share=float(share) if isinstance(share, int | float) else None,
            restart=self._restart(text("restart-strategy.type")),
            drain=text("execution.end-of-input") == "drain",
            failing_rows=text("execution.failing-rows"),
            epoch_interval_us=number("execution.checkpointing.interval"),
        )

    def _restart(self, strategy: str | None) -> RestartOptions | None:
        """What SET says of restarts; None if it does not say which strategy."""
        settings = self._catalog.settings

        def number(key: str) -> int | None:
            value = settings.get(f"restart-strategy.{strategy}.{key}")
            return int(value) if isinstance(value, int) else None

        match strategy:
            case "fixed-delay":
                delay = number("delay") or 0
                return RestartOptions(strategy, number("attempts"), delay, delay, 1.0)
            case "exponential-delay":
                multiplier = settings["restart-strategy.exponential-delay.backoff-multiplier"]
                assert isinstance(multiplier, float)
                return RestartOptions(
                    strategy,
                    number("attempts-before-reset-backoff"),
                    number("initial-backoff") or 0,
                    number("max-backoff") or 0,
                    multiplier,
                )
            case _:
                return None if strategy is None else RestartOptions(strategy)


def _tables_of(query: exp.Expr) -> list[str]:
    """The names in FROM that are not of the query's own CTEs."""
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    names = (name_of(table) for table in query.find_all(exp.Table))
    return list(dict.fromkeys(name for name in names if name and name.lower() not in own))


def _has_one_of(type_: SqlType, kinds: frozenset[Kind]) -> bool:
    """Whether a type, or one inside it, is one of these."""
    inside = (type_.element, type_.key, type_.value, *(t for _, t in type_.fields))
    return type_.kind in kinds or any(t is not None and _has_one_of(t, kinds) for t in inside)
