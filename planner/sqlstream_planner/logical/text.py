"""The logical plan as indented text, stable from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from sqlglot import exp

from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.diagnostics import InternalError, counted
from sqlstream_planner.logical.algebra import (
    Aggregate,
    Apply,
    EmitOnClose,
    Filter,
    Join,
    LateralJoin,
    OrderLimit,
    OverWindow,
    Project,
    Scan,
    SessionFunction,
    SetOperation,
    Sink,
    Unnest,
    Values,
    WindowFunction,
)
from sqlstream_planner.logical.as_of import AsOfJoin, Versions
from sqlstream_planner.logical.epoch_values import EpochValues
from sqlstream_planner.logical.expressions import substitute
from sqlstream_planner.logical.lookup import LookupJoin
from sqlstream_planner.logical.node import Node
from sqlstream_planner.logical.operator import StreamingOperator
from sqlstream_planner.logical.parts import AggregateCall, OrderTerm, WindowCall
from sqlstream_planner.logical.tree import consumers
from sqlstream_planner.sql.as_written import without_marks
from sqlstream_planner.sql.dialect import duckdb_sql


class ComparedKey(Protocol):
    """Two expressions that a join takes for equal."""

    @property
    def left(self) -> exp.Expr:
        """Over the left."""

    @property
    def right(self) -> exp.Expr:
        """Over the right."""


def logical_text(roots: tuple[Sink, ...]) -> str:
    """One tree a sink; a node with several consumers is printed once and is [n] after that."""
    return "\n".join(_Printer(roots).lines)


def describe_window(window: WindowSpec, column_: str) -> str:
    """A window in one phrase.

    >>> describe_window(WindowSpec(WindowKind.TUMBLE, 60_000_000, 60_000_000), "ts")
    'TUMBLE(size 1 minute of ts)'
    """
    if window.kind is WindowKind.SESSION:
        return f"{window.kind}(gap {duration(window.size_us)} of {column_})"
    parts = [f"size {duration(window.size_us)}"]
    if window.kind is not WindowKind.TUMBLE:
        word = "slide" if window.kind is WindowKind.HOP else "step"
        parts.append(f"{word} {duration(window.slide_us)}")
    if window.offset_us:
        parts.append(f"offset {duration(window.offset_us)}")
    if window.shared_slices and window.kind is not WindowKind.TUMBLE:
        parts.append(f"slices of {duration(window.slice_us)}")
    return f"{window.kind}({', '.join(parts)} of {column_})"


def duration(micros: int) -> str:
    """A length of time for people.

    >>> duration(90_000_000), duration(1_500)
    ('90 seconds', '1500 microseconds')
    """
    for unit, length in (
        ("day", 86_400_000_000),
        ("hour", 3_600_000_000),
        ("minute", 60_000_000),
        ("second", 1_000_000),
    ):
        if micros % length == 0:
            count = micros // length
            return f"{count} {unit}{'' if abs(count) == 1 else 's'}"
    return f"{micros} microseconds"


class _Printer:
    def __init__(self, roots: tuple[Sink, ...]) -> None:
        self._shared = consumers(roots)
        self._numbers: dict[int, int] = {}
        self.lines: list[str] = []
        stack: list[tuple[Node, int]] = [(root, 0) for root in reversed(roots)]
        while stack:
            node, depth = stack.pop()
            if self._print(node, depth):
                stack += [(child, depth + 1) for child in reversed(node.inputs)]

    def _print(self, node: Node, depth: int) -> bool:
        """Prints a node, or a reference to it; says whether its inputs are to be printed."""
        pad = "  " * depth
        if id(node) in self._numbers:
            self.lines.append(f"{pad}[{self._numbers[id(node)]}]")
            return False
        mark = ""
        if self._shared.get(id(node), 1) > 1:
            self._numbers[id(node)] = len(self._numbers) + 1
            mark = f"[{self._numbers[id(node)]}] "
        self.lines.append(f"{pad}{mark}{describe(node)}")
        return True


def describe(node: Node) -> str:
    """One line about a node, without its inputs. Raises InternalError for a node that it does not know."""
    match node:
        case StreamingOperator():
            return f"{node.title} {node.details}".rstrip()
        case Scan():
            listed = ", ".join(f.name for f in node.fields)
            where = f" where {node.source.filter}" if node.source.filter else ""
            read = "dimension" if node.is_dimension else "scan"
            return f"{read} {node.source.name} ({listed}){where}"
        case Values():
            return f"values, {counted(len(node.rows), 'row')}"
        case Project():
            items = [f"{f.name} = {expression_text(e)}" for f, e in zip(node.fields, node.items, strict=True)]
            return f"project {', '.join(items)}"
        case Filter():
            return f"filter {expression_text(node.predicate)}"
        case WindowFunction():
            return f"window {describe_window(node.window, node.time_column)}"
        case SessionFunction():
            return f"session {describe_window(node.window, node.time_column)}{by_columns(node.partition)}"
        case Unnest():
            names = ", ".join(f.name for f in node.element)
            return f"{'outer ' if node.outer else ''}unnest {expression_text(node.array)} as {names}"
        case Join():
            on = f" on {expression_text(node.condition)}" if node.condition is not None else ""
            return f"{node.kind.lower()} join{on}{moved(node)}"
        case EpochValues():
            return f"epoch values {', '.join(f'{v.field.name} = {v.kind}' for v in node.values)}"
        case LookupJoin():
            return f"{node.kind.lower()} lookup join on {expression_text(node.condition)}"
        case AsOfJoin():
            sign = ("<" if node.forward else ">") + ("" if node.strict else "=")
            compared = f"{node.left_time} {sign} {node.right_time}"
            return f"{node.kind.lower()} as-of join{on_keys(node.keys, compared)}{where_text(node.condition)}"
        case Versions():
            return f"versions by {', '.join(node.keys)} and {expression_text(node.time)}"
        case LateralJoin():
            return f"{node.kind.lower()} join lateral"
        case Apply():
            return f"apply {node.kind.lower()} as {node.result.name}"
        case SetOperation():
            return f"{node.operator.lower()}{' all' if node.all_ else ''}"
        case Aggregate():
            keys = by_expressions(node.key_expressions, node.sets if node.grouping is not None else ())
            distinct = ", ".join(map(expression_text, node.key_expressions))
            return (
                f"distinct {distinct}"
                if node.keys and not node.calls
                else f"aggregate{keys} {calls_text(node.calls)}"
            )
        case OverWindow():
            return f"over {over_text(node.calls, node.partition, node.order)}"
        case OrderLimit():
            order = f" order {_order(node.order)}" if node.order else ""
            return f"limit {node.offset + 1} to {node.offset + node.limit}{order}"
        case EmitOnClose():
            return "emit on window close"
        case Sink():
            return f"sink {node.label}"
    raise InternalError(f"it is not defined how a {type(node).__name__} is shown")


def title_of(node: Node) -> str:
    """What a node of a streaming plan is called where its rows are described. Raises InternalError for any other."""
    match node:
        case StreamingOperator():
            return node.title
        case Scan():
            return f"{'dimension' if node.is_dimension else 'scan'} {node.source.name}"
        case Values():
            return "values"
        case Project():
            return "project"
        case Filter():
            return "filter"
        case WindowFunction():
            return "window"
        case Unnest():
            return "unnest"
        case SetOperation() if node.is_union_all:
            return "union all"
        case EpochValues():
            return "epoch values"
        case LookupJoin():
            return f"{node.kind.lower()} lookup join"
        case Versions():
            return "versions"
        case Sink():
            return f"sink {node.label}"
    raise InternalError(f"a {type(node).__name__} has no name")


# ------------------------------------------------------------------------------------- phrases of several nodes


def expression_text(expression: exp.Expr) -> str:
    """An expression as SQL, with columns by their ids."""
    plain = {c.name: exp.column(c.name) for c in expression.find_all(exp.Column)}
    return duckdb_sql(without_marks(substitute(expression, dict(plain))))


def moved(node: Node) -> str:
    """Behind a join: why it does not stand where it was written, if it doesn't."""
    return f" (moved: {node.moved})" if isinstance(node, Join) and node.moved is not None else ""


def on_keys(keys: Iterable[ComparedKey], *more: str) -> str:
    """The ON of a join: its equal keys and further conditions."""
    equal = [f"{expression_text(key.left)} = {expression_text(key.right)}" for key in keys]
    on = " AND ".join([*equal, *more])
    return f" on {on}" if on else ""


def where_text(condition: exp.Expr | None) -> str:
    """The WHERE of a join with versions."""
    return f" where {expression_text(condition)}" if condition is not None else ""


def by_expressions(expressions: Iterable[exp.Expr], sets: Iterable[Iterable[int]] = ()) -> str:
    """What is grouped by, and in which grouping sets if there are several."""
    keys = ", ".join(map(expression_text, expressions))
    several = [list(s) for s in sets]
    return f"{f' by {keys}' if keys else ''}{f' sets {several}' if several else ''}"


def by_columns(partition: Iterable[str]) -> str:
    """The columns of a PARTITION BY."""
    listed = ", ".join(partition)
    return f" by {listed}" if listed else ""


def calls_text(calls: Iterable[AggregateCall]) -> str:
    """The aggregates of a GROUP BY."""
    return f"calls {', '.join(c.field.name for c in calls) or 'none'}"


def over_text(calls: Iterable[WindowCall], partition: Iterable[str], order: Sequence[OrderTerm]) -> str:
    """Functions and what they are over."""
    functions = ", ".join(f"{c.name}{f' {c.frame.lower()}' if c.frame else ''}" for c in calls)
    return ranked(functions, partition, order)


def ranked(function: str, partition: Iterable[str], order: Sequence[OrderTerm]) -> str:
    """A function over a partition in an order."""
    return f"{function}{by_columns(partition)}{f' order {_order(order)}' if order else ''}"


def _order(terms: Iterable[OrderTerm]) -> str:
    return ", ".join(
        f"{t.column}{' desc' if t.descending else ''}{' nulls first' if t.nulls_first else ''}" for t in terms
    )
