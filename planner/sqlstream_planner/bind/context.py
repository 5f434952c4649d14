"""What all parts of the binder share: column ids, typing, and errors with their place in the user's file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.bind.epoch_values import Volatile
from sqlstream_planner.bind.quantifiers import COMPARISONS, as_any
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.written_orders import WrittenOrders
from sqlstream_planner.bind.written_values import (
    as_written,
    has_untyped_keys,
    plain_empty_map,
    plain_time_cast,
)
from sqlstream_planner.catalog.descriptor import Connectors
from sqlstream_planner.catalog.source_identity import compact
from sqlstream_planner.catalog.tables import TableDef
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, not_run_yet, refuse
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.constants import Constant, constants
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.translate import translate_marked
from sqlstream_planner.expressions.functions.translate.growth import check_growth
from sqlstream_planner.expressions.infer import infer, require_boolean
from sqlstream_planner.expressions.instants import mixes_instants
from sqlstream_planner.expressions.session_zone import UTC, in_zone
from sqlstream_planner.expressions.unnests import unnest_call
from sqlstream_planner.identity.canonical import Canonical
from sqlstream_planner.identity.form import form
from sqlstream_planner.identity.parts import Columns, form_over
from sqlstream_planner.logical import Field, Fields
from sqlstream_planner.logical.expressions import sql
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.sql.parse import span_of
from sqlstream_planner.sql.problems import UNSUPPORTED_EXPRESSION, TypeProblem
from sqlstream_planner.sql.rendered import RenderedSql
from sqlstream_planner.sql.written_calls import written_call


class OuterNames(Protocol):
    """The names of an outer query as its sub-queries look for them: a `Scope`."""

    def find(self, node: exp.Column) -> exp.Expr | None:
        """The column that a name means, perhaps a field of it; None if there is none."""

    def by_id(self, id_: str) -> Field | None:
        """The column with this id."""

    def named(self, table: str) -> list[Relation]:
        """The relations that are called so."""

    def unknown(self, node: exp.Column, parts: list[str]) -> NoReturn:
        """Refuse a name that means nothing there. Raises DiagnosticError."""


@dataclass(slots=True)
class Clauses:
    """What applies to the operators of the query that is being bound; times in µs.

    `default_ttl_us` and `lateness_us` are the file's settings, `ttl_us` is of this SELECT, `join_ttl_us` of the one whose
    FROM is bound, `changes` says that windows are given before they close.
    """

    default_ttl_us: int | None = None
    lateness_us: int = 0
    ttl_us: int | None = None
    changes: bool = False
    join_ttl_us: int | None = None


@dataclass(slots=True)
class OuterRows:
    """The outer rows: the columns in `scope`, and those that the sub-query has `read`, by their ids, with
    where it first names them.
    """

    scope: OuterNames
    read: dict[str, Field] = field(default_factory=dict)
    written: dict[str, exp.Column] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that a query reads, and where."""

    table: TableDef
    at: Span | None


@dataclass(slots=True)
class BindContext:
    """The rendered file, the connectors that there are, the ids that were given out, and what the query's clauses say.

    `process_times` are the ids of columns that are PROCTIME(), `unread_times` of those that a table of changes declares:
    they may stand there, as they do in many a file of Flink's, but can't be read. `constants` are parts of expressions
    that can be tried before there is a row, each with its first place. `outer`: the outer rows of the sub-query that is
    being bound, the outermost first. `statement`: the query that is being bound, with all of its sub-queries. `read_tables`:
    the tables that are read, by the id of the first column of their scan. `volatile`: calls that each epoch answers anew.
    `orders`: the ORDER BYs of sub-queries of `statement`. `facts`: what is known of nodes that are bound.
    """

    rendered: RenderedSql
    connectors: Connectors = field(default_factory=Connectors)
    warnings: list[Diagnostic] = field(default_factory=list)
    clauses: Clauses = field(default_factory=Clauses)
    process_times: set[str] = field(default_factory=set)
    unread_times: set[str] = field(default_factory=set)
    outer: list[OuterRows] = field(default_factory=list)
    statement: exp.Expr | None = None
    read_tables: dict[str, ReadTable] = field(default_factory=dict)
    constants: dict[Constant, Span] = field(default_factory=dict)
    volatile: Volatile = field(default_factory=Volatile)
    orders: WrittenOrders = field(default_factory=WrittenOrders)
    facts: Facts = field(default_factory=Facts)
    _ids: set[str] = field(default_factory=set)
    _numbers: dict[str, int] = field(default_factory=dict)

    def new_id(self, name: str) -> str:
        """A column id that no other column of the plan has, ignoring case: the name itself if it is free.

        It has no dot, which distinguishes what rules derive of ids (`a.key`), and does not begin with `__`, as columns of
        our own do.
        """
        base = re.sub(r"[^\w$]+", "_", name).strip("_") or "column"
        if base.startswith("__"):
            base = f"c{base}"
        candidate, number = base, self._numbers.get(base.lower(), 1)
        while candidate.lower() in self._ids:
            number += 1
            candidate = f"{base}_{number}"
        self._numbers[base.lower()] = number
        self._ids.add(candidate.lower())
        return candidate

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Bind a view: the clauses of the query that reads it are not the view's."""
        before, outer = self.clauses, self.outer
        self.clauses, self.outer = replace(before, ttl_us=before.default_ttl_us, changes=False), []
        try:
            yield
        finally:
            self.clauses, self.outer = before, outer

    @contextmanager
    def apart_from_rows(self) -> Iterator[None]:
        """Bind a table, which reads nothing of the outer rows of a sub-query."""
        outer, self.outer = self.outer, []
        try:
            yield
        finally:
            self.outer = outer

    @contextmanager
    def around(self, rows: OuterRows) -> Iterator[None]:
        """Bind a sub-query, which may read `rows`."""
        self.outer.append(rows)
        try:
            yield
        finally:
            self.outer.pop()

    def outer_column(self, node: exp.Column) -> exp.Expr | None:
        """The column of the outer rows of the sub-query that a name means, the innermost first; None if there is none."""
        for rows in reversed(self.outer):
            found = rows.scope.find(node)
            if found is not None:
                [id_] = (c.name for c in found.find_all(exp.Column))
                f = rows.scope.by_id(id_)
                assert f is not None
                rows.read[id_] = replace(f, time=None, window=None)
                rows.written.setdefault(id_, node)
                return found
        return None

    def outer_field(self, id_: str) -> Field | None:
        """The column of the outer rows of the sub-query with this id."""
        return next((rows.read[id_] for rows in self.outer if id_ in rows.read), None)

    def left_out(self, name: str) -> tuple[str, ...]:
        """Why tables of catalogs that are read have no column of this name here, though they have one there."""
        tables = {read.table.name: read.table for read in self.read_tables.values()}
        return tuple(
            f"`{table.name}` has a column `{one.name}`, which is left out: {one.why}"
            for table in tables.values()
            for one in table.left_out
            if one.name.lower() == name.lower()
        )

    def span(self, node: exp.Expr) -> Span:
        """The place of a syntax node."""
        return span_of(node, self.rendered)

    def fail(
        self, node: exp.Expr, code: str, message: str, *, notes: tuple[str, ...] = (), help: str | None = None
    ) -> NoReturn:
        """Refuse the user's SQL at `node`."""
        refuse(self.span(node), code, message, notes=notes, help=help)

    def unsupported(self, node: exp.Expr, what: str, help: str | None = None) -> NoReturn:
        """Refuse a construct that is valid SQL but can't be run."""
        not_run_yet(self.span(node), what, help)

    def _warn_of_null(self, node: exp.Expr) -> None:
        span = self.span(node)
        if any(w.code == "SQL105" and w.span == span for w in self.warnings):
            return  # this expression was met before, as of GROUP BY
        self.warnings.append(
            Diagnostic(
                "SQL105",
                "a comparison with NULL is never true",
                span,
                notes=("it is NULL for every row, and WHERE keeps rows for which its condition is true",),
                help="write x IS NOT NULL" if isinstance(node, exp.NEQ) else "write x IS NULL",
                severity="warning",
            )
        )

    def type_of(
        self,
        expression: exp.Expr,
        fields: Fields,
        *,
        aggregates: bool = False,
        windows: bool = False,
        untyped_keys: bool = False,
    ) -> TypedExpr:
        """The type of a resolved expression over `fields`; a type problem becomes a diagnostic.

        So does a map whose keys have no type, unless `untyped_keys`.
        """
        typed = self._typed(
            lambda: infer(expression, self._types(fields), aggregates=aggregates, windows=windows),
            expression,
            fields,
        )
        if not untyped_keys and has_untyped_keys(typed.type):
            self.fail(
                expression,
                UNSUPPORTED_EXPRESSION,
                "the keys of this map have no type, so no column can hold it",
                help="CAST it, such as CAST(MAP{} AS MAP<STRING, INT>)",
            )
        return typed

    def condition(self, expression: exp.Expr, fields: Fields, what: str) -> TypedExpr:
        """Like `type_of` for a condition, which must be BOOLEAN. `what` names the clause."""
        return self._typed(lambda: require_boolean(expression, self._types(fields), what), expression, fields)

    def _typed(self, run: Callable[[], TypedExpr], expression: exp.Expr, fields: Fields) -> TypedExpr:
        misplaced = next((part for part in expression.walk() if unnest_call(part) is not None), None)
        if misplaced is not None:
            self.fail(
                misplaced,
                "TYP005",
                "UNNEST is not allowed here",
                notes=(
                    "it makes rows, so it can only stand in the SELECT list, in GROUP BY and behind JOIN",
                ),
                help="unnest in a sub-query: FROM (SELECT *, UNNEST(an_array) AS e FROM t)",
            )
        try:
            return run()
        except TypeProblem as problem:
            node = problem.node if problem.node.meta or problem.node.parent is not None else expression
            raise DiagnosticError(as_written(problem.diagnostic(self.span(node)), fields)) from None

    def refuse_subquery(self, node: exp.Expr) -> NoReturn:
        """Refuse a query that stands where a value is wanted. Raises DiagnosticError."""
        self.unsupported(node, "a sub-query inside an expression", help="sub-queries can stand in FROM")

    def refuse_star(self, node: exp.Expr, what: str) -> NoReturn:
        """Refuse a choice of columns that is not made by their names. Raises DiagnosticError."""
        self.unsupported(node, what, help="name the columns, or those that you don't want: * EXCLUDE (a, b)")

    def _check_star(self, star: exp.Star) -> None:
        """A star is an argument of a call, and has nothing behind it, or it is no value."""
        at = star.parent if isinstance(star.parent, exp.Column) else star
        if any(star.args.get(clause) for clause in ("except_", "except", "replace", "rename", "ilike")):
            self.refuse_star(at, "EXCLUDE, REPLACE or RENAME inside an expression")
        if not isinstance(at.parent, exp.Func | exp.Distinct):
            self.refuse_star(at, "* inside an expression")

    def _check_quantifier(self, node: exp.Expr) -> None:
        """Only a comparison goes with ANY, and only over a list, which DuckDB can unnest."""
        right = node.args.get("expression")
        if not isinstance(right, exp.Expr):
            return
        call = written_call(right)
        word = (
            right.key.upper()
            if isinstance(right, exp.Any | exp.All)
            else call.name.upper()
            if call is not None
            else ""
        )
        if isinstance(node, (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.Glob, exp.SimilarTo)):
            if word in ("ANY", "SOME", "ALL"):
                self.unsupported(
                    right,
                    f"a pattern with {word} of a list",
                    help="write s LIKE ANY ('a%', 'b%'), or regexp_matches(s, 'a|b')",
                )
        elif isinstance(node, COMPARISONS) and word:
            listed = isinstance(right, exp.Any) and isinstance(right.this, exp.Tuple)
            several = call is not None and (
                len(call.arguments) != 1 or isinstance(call.arguments[0].unnest(), exp.Array | exp.Tuple)
            )
            if listed or word == "ALL" or (word == "SOME" and several):
                self.unsupported(
                    right,
                    f"{word} of a list of values" if listed or several else word,
                    help="write x IN (1, 2) or x > ANY ([1, 2])"
                    if word != "ALL"
                    else "write x NOT IN (1, 2) or NOT x <= ANY ([1, 2])",
                )

    def changes_each_time(self, node: exp.Expr, what: str) -> NoReturn:
        """Refuse what has another value each time it runs. Raises DiagnosticError."""
        self.fail(
            node,
            "SQL101",
            f"{what} gives another value each time it runs",
            notes=("an epoch that is replayed after a failure must give the same result",),
            help="a lookup join takes it as it is: JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON …; for anything else use the "
            "event-time column: this table is updating, and its retractions would have another time"
            if "PROCTIME" in what
            else _INSTEAD.get(what, "use the event-time column, or a column that the source fills"),
        )

    def warn_of_process_time(self, star: exp.Expr, name: str) -> None:
        """Tell that `*` leaves out a column that can't be read."""
        self.warnings.append(
            Diagnostic(
                "SQL106",
                f"`{name}` is PROCTIME() and is left out of `*`",
                self.span(star),
                notes=("it has another value each time the query runs",),
                help=f"name the columns, or write * EXCEPT ({name})",
                severity="warning",
            )
        )

    def form(self, expression: exp.Expr, fields: Fields) -> str:
        """What is equal for resolved expressions over `fields` that compute the same, and for no others."""
        types = {id_: type_ for id_, (type_, _) in self._types(fields).items()}
        if expression.find(exp.Dot) is None:
            return form_over(expression, Columns({}, types)).digest
        # Fields of rows are found in any case, those of JSON are not: the columns' types decide.
        columns = {id_: form("column", id_, compact({"type": str(type_)})) for id_, type_ in types.items()}
        return Canonical()(form_over(expression, Columns(columns, types))).digest

    def _types(self, fields: Fields) -> Mapping[str, tuple[SqlType, bool]]:
        around = (f for rows in self.outer for f in rows.read.values())
        return {**self.volatile.types, **{f.id: (f.type, f.nullable) for f in (*around, *fields)}}

    def translated(self, expression: exp.Expr, fields: Fields) -> exp.Expr:
        """A resolved expression with all functions as DuckDB's; refuses non-deterministic ones."""
        expression = expression.transform(as_any).transform(self._given_by_epoch)
        types = self._types(fields)
        for node in expression.walk():
            if isinstance(node, exp.Query | exp.Exists):
                self.refuse_subquery(node)
            if isinstance(node, exp.Window):
                self.unsupported(node, "OVER")
            if isinstance(node, COMPARISONS) and exp.Null in (type(node.this), type(node.expression)):
                self._warn_of_null(node)
            if isinstance(node, exp.Collate):
                self.unsupported(
                    node, "COLLATE", help="texts are compared by their bytes: compare LOWER(…) instead"
                )
            if isinstance(node, exp.Star):
                self._check_star(node)
            self._check_quantifier(node)
            call = written_call(node)
            if call is not None and call.name == "columns":
                self.refuse_star(node, "COLUMNS(…)")
            if call is not None and not catalogue.is_deterministic(call.name, len(call.arguments)):
                self.changes_each_time(node, call.name.upper())
        try:
            check_growth(expression)
            translated = translate_marked(expression, lambda e: infer(e, types, aggregates=True).type)
            self._note_constants(translated, types)
            made = translated.transform(plain_time_cast).transform(plain_empty_map)
            return in_zone(made, types, self.volatile.zone)
        except TypeProblem as problem:
            raise DiagnosticError(as_written(problem.diagnostic(self.span(problem.node)), fields)) from None

    def in_session_zone(self, expression: exp.Expr, fields: Fields) -> exp.Expr:
        """An expression that the binder made itself, as of the session's time zone. Raises DiagnosticError."""
        try:
            return in_zone(expression, self._types(fields), self.volatile.zone)
        except TypeProblem as problem:
            raise DiagnosticError(as_written(problem.diagnostic(self.span(problem.node)), fields)) from None

    def refuse_mixed_instants(self, node: exp.Expr, types: Sequence[SqlType]) -> None:
        """Refuse types that have a common one only by a time zone that is not UTC. Raises DiagnosticError."""
        if self.volatile.zone != UTC and mixes_instants(types):
            shown = " and ".join(dict.fromkeys(str(t) for t in types))
            self.fail(
                node,
                "SQL031",
                f"{shown} have a common type by the session's time zone, which is {self.volatile.zone}",
                help="CAST both to one type",
            )

    def _given_by_epoch(self, node: exp.Expr) -> exp.Expr:
        """A call that the epoch answers, as an expression over a column that stands for that."""
        call = written_call(node)
        if call is None:
            return node
        made = self.volatile.of_call(node, call, self.span(node))
        return node if made is None else made

    def _note_constants(self, translated: exp.Expr, types: Mapping[str, tuple[SqlType, bool]]) -> None:
        def type_of(node: exp.Expr) -> SqlType:
            return infer(node, types, aggregates=True).type

        for node, constant in constants(translated, sql, type_of):
            if constant not in self.constants:
                self.constants[constant] = self.span(node)


_INSTEAD: Mapping[str, str] = {
    "SETSEED": "write RAND(7), whose values follow from the seed and the row",
    "RANDN": "write sqrt(-2 * ln(1 - RAND())) * cos(2 * pi() * RAND())",
    "SHUFFLE": "sort by a hash: list_sort(list, …), or UNNEST the elements and order them by RAND()",
    "CURRENT_WATERMARK": "rows that are late go to the dead letters by themselves",
}


def fresh(field_: Field, context: BindContext, name: str | None = None) -> Field:
    """The same column under a new id, perhaps with another name."""
    name = name or field_.name
    made = replace(field_, id=context.new_id(name), name=name)
    for times in (context.process_times, context.unread_times):
        if field_.id in times:
            times.add(made.id)
    return made
