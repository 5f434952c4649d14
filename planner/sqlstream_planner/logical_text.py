"""The logical plan as indented text, stable from run to run."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.spec import WindowKind, WindowSpec
from sqlstream_planner.bind.windows import duration
from sqlstream_planner.dialect import duckdb_sql
from sqlstream_planner.functions.as_written import without_marks
from sqlstream_planner.logical import (
    Filter,
    GroupAggregate,
    KeepFirst,
    Node,
    Normalize,
    Project,
    Rank,
    Scan,
    Sink,
    TopN,
    Union,
    Unnest,
    Window,
    WindowAggregate,
    WindowGate,
    consumers,
    substitute,
)


def logical_text(roots: tuple[Sink, ...]) -> str:
    """One tree a sink; a node with several consumers is printed once and is [n] after that."""
    return "\n".join(_Printer(roots).lines)


def describe_window(window: WindowSpec, column_: str) -> str:
    """A window in one phrase.

    >>> describe_window(WindowSpec(WindowKind.TUMBLE, 60_000_000, 60_000_000), "ts")
    'TUMBLE(size 1 minute of ts)'
    """
    parts = [f"size {duration(window.size_us)}"]
    if window.kind is not WindowKind.TUMBLE:
        word = "slide" if window.kind is WindowKind.HOP else "step"
        parts.append(f"{word} {duration(window.slide_us)}")
    if window.offset_us:
        parts.append(f"offset {duration(window.offset_us)}")
    if window.shared_slices and window.kind is not WindowKind.TUMBLE:
        parts.append(f"slices of {duration(window.slice_us)}")
    return f"{window.kind}({', '.join(parts)} of {column_})"


class _Printer:
    def __init__(self, roots: tuple[Sink, ...]) -> None:
        self._shared = consumers(tuple(roots))
        self._numbers: dict[int, int] = {}
        self.lines: list[str] = []
        for root in roots:
            self._print(root, 0)

    def _print(self, node: Node, depth: int) -> None:
        pad = "  " * depth
        if id(node) in self._numbers:
            self.lines.append(f"{pad}[{self._numbers[id(node)]}]")
            return
        mark = ""
        if self._shared.get(id(node), 1) > 1:
            self._numbers[id(node)] = len(self._numbers) + 1
            mark = f"[{self._numbers[id(node)]}] "
        self.lines.append(f"{pad}{mark}{describe(node)}")
        for child in node.inputs:
            self._print(child, depth + 1)


def describe(node: Node) -> str:
    """One line about a node, without its inputs."""
    match node:
        case Scan():
            listed = ", ".join(f.name for f in node.fields)
            where = f" where {node.source.filter}" if node.source.filter else ""
            return f"scan {node.source.name} ({listed}){where}"
        case Project():
            items = [f"{f.name} = {_text(e)}" for f, e in zip(node.fields, node.expressions, strict=True)]
            return f"project {', '.join(items)}"
        case Filter():
            return f"filter {_text(node.predicate)}"
        case Window():
            return f"window {describe_window(node.window, node.time_column)}"
        case Unnest():
            names = ", ".join(f.name for f in node.element)
            return f"{'outer ' if node.outer else ''}unnest {_text(node.array)} as {names}"
        case Union():
            return "union all"
        case WindowAggregate():
            window = describe_window(node.window, node.slice_column)
            keys = ", ".join(_text(e) for e in node.key_expressions)
            by = f" by {keys}" if keys else ""
            several = f" sets {[list(s) for s in node.sets]}" if node.grouping is not None else ""
            calls = ", ".join(c.field.name for c in node.calls)
            return f"window aggregate {window}{by}{several} calls {calls or 'none'}"
        case GroupAggregate():
            keys = ", ".join(_text(e) for e in node.key_expressions)
            several = f" sets {[list(s) for s in node.sets]}" if node.grouping is not None else ""
            calls = ", ".join(c.field.name for c in node.calls)
            if not calls and keys:
                return f"distinct {keys}"
            return f"group aggregate{f' by {keys}' if keys else ''}{several} calls {calls or 'none'}"
        case Rank() | TopN():
            order = ", ".join(
                f"{t.column}{' desc' if t.descending else ''}{' nulls first' if t.nulls_first else ''}"
                for t in node.order
            )
            by = f" by {', '.join(node.partition)}" if node.partition else ""
            ranked = f"{node.function}{by}{f' order {order}' if order else ''}"
            if isinstance(node, Rank):
                return f"rank {ranked}"
            first = f"{node.offset + 1} to {node.offset + node.limit}"
            window = " when the window closes" if node.window_end is not None else ""
            return f"top {first} of {ranked}{window}"
        case WindowGate():
            return f"hold until {describe_window(node.window, 'event time')} closes"
        case KeepFirst():
            return f"first row of each {', '.join(node.keys)}"
        case Normalize():
            return f"normalize changes by {', '.join(node.keys)}"
        case Sink():
            return f"sink {node.label}"


def _text(expression: exp.Expr) -> str:
    plain = {c.name: exp.column(c.name) for c in expression.find_all(exp.Column)}
    return duckdb_sql(without_marks(substitute(expression, dict(plain))))
