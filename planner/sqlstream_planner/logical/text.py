"""The logical plan as indented text, stable from run to run."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.spec import WindowKind, WindowSpec
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.expressions.functions.as_written import without_marks
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
from sqlstream_planner.logical.parts import AggregateCall, OrderTerm, WindowCall
from sqlstream_planner.logical.streaming import (
    Arrangement,
    ChangelogNormalize,
    FirstRow,
    GroupAggregate,
    IntervalJoin,
    Over,
    RegularJoin,
    SessionAggregate,
    SessionWindows,
    SuppressUntilClose,
    TemporalJoin,
    TopN,
    WindowAggregate,
    is_arranged,
)
from sqlstream_planner.logical.tree import consumers
from sqlstream_planner.sql.dialect import duckdb_sql


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
    """One line about a node, without its inputs."""
    match node:
        case Scan():
            listed = ", ".join(f.name for f in node.fields)
            where = f" where {node.source.filter}" if node.source.filter else ""
            read = "dimension" if node.is_dimension else "scan"
            return f"{read} {node.source.name} ({listed}){where}"
        case Values():
            return f"values, {counted(len(node.rows), 'row')}"
        case Project():
            items = [f"{f.name} = {_text(e)}" for f, e in zip(node.fields, node.items, strict=True)]
            return f"project {', '.join(items)}"
        case Filter():
            return f"filter {_text(node.predicate)}"
        case WindowFunction():
            return f"window {describe_window(node.window, node.time_column)}"
        case SessionFunction():
            return f"session {describe_window(node.window, node.time_column)}{_partitioned(node.partition)}"
        case SessionWindows():
            early = ", rows at once" if node.early else ""
            window = describe_window(node.window, node.time_column)
            return f"session windows {window}{_partitioned(node.partition)}{early}"
        case SessionAggregate():
            early = ", at once" if node.early else ""
            window = describe_window(node.window, node.time_column)
            return (
                f"session aggregate {window}{_partitioned(node.partition)} calls {_calls(node.calls)}{early}"
            )
        case Unnest():
            names = ", ".join(f.name for f in node.element)
            return f"{'outer ' if node.outer else ''}unnest {_text(node.array)} as {names}"
        case Join():
            on = f" on {_text(node.condition)}" if node.condition is not None else ""
            return f"{node.kind.lower()} join{on}{_moved(node)}"
        case Arrangement():
            kept = "kept by" if node.answered else "arrange by"
            return f"{kept} {', '.join(_text(key.expression) for key in node.keys)}"
        case RegularJoin() if is_arranged(node):
            return f"{node.kind.lower()} join of arrangements{_on(node)}{_moved(node.meaning)}"
        case RegularJoin():
            return f"keep {node.kind.lower()} join{_on(node)}{_moved(node.meaning)}"
        case IntervalJoin():
            return f"{node.kind.lower()} join in time{_on(node)}"
        case EpochValues():
            return f"epoch values {', '.join(f'{v.field.name} = {v.kind}' for v in node.values)}"
        case LookupJoin():
            return f"{node.kind.lower()} lookup join on {_text(node.condition)}"
        case AsOfJoin() | TemporalJoin():
            equal = [f"{_text(key.left)} = {_text(key.right)}" for key in node.keys]
            sign = ("<" if node.forward else ">") + ("" if node.strict else "=")
            equal.append(f"{node.left_time} {sign} {node.right_time}")
            where = f" where {_text(node.condition)}" if node.condition is not None else ""
            kept = "keep versions for " if isinstance(node, TemporalJoin) else ""
            return f"{kept}{node.kind.lower()} as-of join on {' AND '.join(equal)}{where}"
        case Versions():
            return f"versions by {', '.join(node.keys)} and {_text(node.time)}"
        case LateralJoin():
            return f"{node.kind.lower()} join lateral"
        case Apply():
            return f"apply {node.kind.lower()} as {node.result.name}"
        case SetOperation():
            return f"{node.operator.lower()}{' all' if node.all_ else ''}"
        case WindowAggregate():
            window = describe_window(node.window, node.slice_column)
            return f"window aggregate {window}{_groups(node)}"
        case Aggregate():
            return _aggregate("aggregate", node)
        case GroupAggregate():
            return _aggregate("group aggregate", node)
        case OverWindow():
            return f"over {_overs(node.calls, node.partition, node.order)}"
        case Over():
            return f"keep over {_overs(node.calls, node.partition, node.order)}"
        case TopN():
            first = f"{node.offset + 1} to {node.offset + node.limit}"
            window = " when the window closes" if node.window_end is not None else ""
            return f"top {first} of {_ranked(node.function, node.partition, node.order)}{window}"
        case OrderLimit():
            order = f" order {_order(node.order)}" if node.order else ""
            return f"limit {node.offset + 1} to {node.offset + node.limit}{order}"
        case EmitOnClose():
            return "emit on window close"
        case SuppressUntilClose():
            return f"hold until {describe_window(node.window, 'event time')} closes"
        case FirstRow():
            return f"first row of each {', '.join(node.keys)}"
        case ChangelogNormalize():
            return f"normalize changes by {', '.join(node.keys)}"
        case Sink():
            return f"sink {node.label}"
    return type(node).__name__


def _on(node: RegularJoin | IntervalJoin) -> str:
    equal = [f"{_text(key.left)} = {_text(key.right)}" for key in node.keys]
    on = " AND ".join([*equal, *([_text(node.condition)] if node.condition is not None else [])])
    return f" on {on}" if on else ""


def _moved(node: Node) -> str:
    return f" (moved: {node.moved})" if isinstance(node, Join) and node.moved is not None else ""


def _aggregate(name: str, node: Aggregate | GroupAggregate) -> str:
    if not node.calls and node.keys:
        return f"distinct {', '.join(_text(e) for e in node.key_expressions)}"
    return f"{name}{_groups(node)}"


def _groups(node: Aggregate | GroupAggregate | WindowAggregate) -> str:
    keys = ", ".join(_text(e) for e in node.key_expressions)
    by = f" by {keys}" if keys else ""
    several = f" sets {[list(s) for s in node.sets]}" if node.grouping is not None else ""
    return f"{by}{several} calls {_calls(node.calls)}"


def _calls(calls: tuple[AggregateCall, ...]) -> str:
    return ", ".join(c.field.name for c in calls) or "none"


def _overs(calls: tuple[WindowCall, ...], partition: tuple[str, ...], order: tuple[OrderTerm, ...]) -> str:
    functions = ", ".join(f"{c.name}{f' {c.frame.lower()}' if c.frame else ''}" for c in calls)
    return _ranked(functions, partition, order)


def _partitioned(partition: tuple[str, ...]) -> str:
    return f" by {', '.join(partition)}" if partition else ""


def _ranked(function: str, partition: tuple[str, ...], order: tuple[OrderTerm, ...]) -> str:
    return f"{function}{_partitioned(partition)}{f' order {_order(order)}' if order else ''}"


def _order(terms: tuple[OrderTerm, ...]) -> str:
    return ", ".join(
        f"{t.column}{' desc' if t.descending else ''}{' nulls first' if t.nulls_first else ''}" for t in terms
    )


def _text(expression: exp.Expr) -> str:
    plain = {c.name: exp.column(c.name) for c in expression.find_all(exp.Column)}
    return duckdb_sql(without_marks(substitute(expression, dict(plain))))
