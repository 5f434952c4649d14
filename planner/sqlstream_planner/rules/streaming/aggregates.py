"""GROUP BY  ->  a window aggregate, which gives each window once, or a group aggregate, which is kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.types import TIMESTAMP, Kind, SqlType
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.logical import (
    Aggregate,
    ColumnId,
    EventTime,
    Field,
    Node,
    Project,
    WindowColumn,
    column,
    raw,
    time_column,
)
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import GroupAggregate, GroupExpiry, SuppressUntilClose, WindowAggregate
from sqlstream_planner.windows.window_time import start_of


def aggregates(node: Node, streaming: Streaming) -> Node | None:
    """Choose how each Aggregate runs, by its keys, its emission and whether its input changes.

    Keys that are bounds of a window make it an aggregate over windows. Over append-only rows, a window is emitted once, when
    the watermark closes it (WindowAggregate). With EMIT CHANGES, with allowed lateness, or over rows that change its
    groups are kept up to date until they expire (GroupAggregate), without EMIT CHANGES behind a SuppressUntilClose
    that holds them back until the window closes.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> tumble = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    >>> print(logical(f"SELECT window_end, a FROM {tumble} GROUP BY window_end, a", rules=streaming(aggregates)))
    sink result
      project window_end = window_end_2, a = a_2
        window aggregate TUMBLE(size 1 minute of window_end) by a calls none
          window TUMBLE(size 1 minute of ts)
            scan t (a, c, ts)
    """
    if not isinstance(node, Aggregate):
        return None
    meaning = streaming.meaning(node)
    window = windowed(node)
    if window is None:
        return GroupAggregate(
            node.input,
            node.keys,
            node.key_expressions,
            node.sets,
            node.grouping,
            node.calls,
            meaning,
            ttl_us=node.ttl_us,
        )
    changing = node.emission.changes or node.emission.lateness_us > 0 or streaming.changes(node.input)
    return _kept_up_to_date(window, meaning) if changing else _given_once(window, meaning)


@dataclass(frozen=True, slots=True)
class Windowed:
    """An Aggregate over windows: `marker` is of the first of the keys at `bounds`, `rows` its input with `end`, the
    column that has the window's end.

    Keys at `bounds` follow from the end. Of a session the start does not: it is a key like others.
    """

    node: Aggregate
    marker: WindowColumn
    bounds: tuple[int, ...]
    rows: Node
    end: ColumnId

    @property
    def window(self) -> WindowSpec:
        """The window."""
        return self.marker.window

    @property
    def after(self) -> EventTime:
        """The event time of the window's results."""
        return replace(self.marker.time, direct=False)

    def bound(self, role: str) -> Field:
        """The result's column with a bound, which the query may not give."""
        keys = [self.node.keys[i] for i in self.bounds]
        for key in keys:
            if key.window is not None and key.window.role == role:
                return key
        type_ = self._time_type() if role == "time" else TIMESTAMP
        mark = WindowColumn(role, self.window, self.after)
        time = mark.event_time if role == "time" else None
        return Field(f"{keys[0].id}.{role}", f"window_{role}", type_, False, time, mark)

    def _time_type(self) -> SqlType:
        times = [f.type for f in self.rows.fields if f.window is not None and f.window.role == "time"]
        return times[-1] if times else TIMESTAMP

    def result(
        self, node: Node, columns: dict[str, exp.Expr], keys: Mapping[str, exp.Expr] | None = None
    ) -> Node:
        """The Aggregate's columns from those of the operator: `columns` are bounds by role, `keys` others by id."""
        items = []
        for f in self.node.fields:
            bound = f.window is not None and f.id in {self.node.keys[i].id for i in self.bounds}
            other = (keys or {}).get(f.id, column(f.id))
            items.append(columns[f.window.role] if bound and f.window is not None else other)
        return Project(node, self.node.fields, tuple(items))


def windowed(node: Aggregate) -> Windowed | None:
    """The window that an Aggregate is over: that of its first key that is a bound of one."""
    bounds = tuple(i for i, key in enumerate(node.keys) if key.window is not None and _follows(key.window))
    if not bounds:
        return None
    read = node.key_expressions[bounds[0]].unnest()
    f = next(f for f in node.input.fields if f.id == read.name)
    assert f.window is not None
    same = [x for x in node.input.fields if x.window is not None and x.window.window == f.window.window]
    for x in same:
        if x.window is not None and x.window.role == "end":
            return Windowed(node, f.window, bounds, node.input, ColumnId(x.id))
    shift = 1_000 if f.window.role == "time" else f.window.window.size_us
    end = Field(f"{f.id}.end", "window_end", TIMESTAMP, False, window=replace(f.window, role="end"))
    microseconds = exp.Interval(this=exp.Literal.string(str(shift)), unit=exp.Var(this="MICROSECOND"))
    expression = exp.Add(this=column(f.id), expression=microseconds)
    columns = (*(column(x.id) for x in node.input.fields), expression)
    return Windowed(
        node, f.window, bounds, Project(node.input, (*node.input.fields, end), columns), ColumnId(end.id)
    )


def _plain(
    over: Windowed,
) -> tuple[tuple[Field, ...], tuple[exp.Expr, ...], tuple[tuple[int, ...], ...]]:
    """The keys that are no bounds of the window, their expressions, and the grouping sets over them."""
    node = over.node
    plain = [i for i in range(len(node.keys)) if i not in over.bounds]
    number = {i: n for n, i in enumerate(plain)}
    sets = tuple(tuple(number[i] for i in chosen if i in number) for chosen in node.sets)
    return tuple(node.keys[i] for i in plain), tuple(node.key_expressions[i] for i in plain), sets


def _follows(bound: WindowColumn) -> bool:
    """Whether a window's end determines this bound of it."""
    return bound.role != "start" or bound.window.kind is not WindowKind.SESSION


def _given_once(over: Windowed, meaning: Node) -> Node:
    """The groups of each window, given once, when it closes."""
    node = over.node
    keys, expressions, sets = _plain(over)
    start, end, time = (over.bound(role) for role in ("start", "end", "time"))
    aggregate = WindowAggregate(
        input=over.rows,
        window=replace(over.window, shared_slices=False),
        slice_column=over.end,
        time=over.marker.time,
        time_column=time_column(over.rows.fields),
        keys=keys,
        key_expressions=expressions,
        sets=sets,
        grouping=node.grouping,
        calls=node.calls,
        start=start if over.window.kind is not WindowKind.SESSION else None,
        end=end,
        window_time=time,
        meaning=meaning,
    )
    return over.result(aggregate, {"start": column(start.id), "end": column(end.id), "time": column(time.id)})


def _kept_up_to_date(over: Windowed, meaning: Node) -> Node:
    """The groups of each window, kept up to date, by the window's end as the first key."""
    node = over.node
    end = over.bound("end")
    keys, expressions, sets = _plain(over)
    grouped = GroupAggregate(
        over.rows,
        (end, *(replace(k, time=None) for k in keys)),
        (column(over.end), *expressions),
        tuple((0, *(i + 1 for i in chosen)) for chosen in sets),
        node.grouping,
        node.calls,
        meaning,
        GroupExpiry(0, over.marker.time, node.emission.lateness_us),
    )
    given: Node = grouped
    if not node.emission.changes:
        given = SuppressUntilClose(grouped, over.window, meaning)
    us = f'epoch_us("{end.id}")'
    maker = "make_timestamptz" if over.bound("time").type.kind is Kind.TIMESTAMPTZ else "make_timestamp"
    return over.result(
        given,
        {
            "start": raw(f"make_timestamp({start_of(over.window, us)})"),
            "end": column(end.id),
            "time": raw(f"{maker}({us} - 1000)"),
        },
    )
