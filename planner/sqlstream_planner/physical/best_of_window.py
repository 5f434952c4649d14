"""SQL that leaves out rows of an epoch's split whose only possible partner is the greatest, or least, of their window.

`b JOIN (SELECT window_end, MAX(x) AS m … GROUP BY window_end) AS w ON b.x = w.m AND b.ts …`: where the split itself has a
greater x in each window that a row can be joined with, the row has no partner, whatever else the epoch or later ones read.
It need not be shipped, nor kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.schema import SLICE_COLUMN
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.window_spec import WindowKind
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.logical import Filter, JoinKind, Node, Project
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.join_sides import Side, equal_forms
from sqlstream_planner.physical.planner import Partial, Planner
from sqlstream_planner.physical.top_filter import PLAIN
from sqlstream_planner.streaming import IntervalJoin, WindowAggregate
from sqlstream_planner.windows import window_time as window_sql

#: A row that can be joined with more windows than this is shipped.
_MOST_WINDOWS = 4


@dataclass(frozen=True, slots=True)
class BestOfWindow:
    """The rows of a side that can have the value `best` of a window in `value`; what the two being equal means is `equal`.

    `same` are columns of the rows as they are shipped, with those of `partial`, the aggregate before its exchange, that are
    equal to them. The ends of the windows that a row can be joined with are its time and between `first_us` and `last_us`.
    """

    partial: Partial
    aggregate: WindowAggregate
    time: str
    value: str
    equal: Form
    best: str
    greatest: bool
    same: tuple[tuple[str, str], ...]
    first_us: int
    last_us: int
    can_be_late: bool

    @classmethod
    def of(
        cls, planner: Planner, node: IntervalJoin, sides: Sequence[Side], number: int, *, can_be_late: bool
    ) -> BestOfWindow | None:
        """What says which rows of the side `number` can have a partner, None where nothing does.

        `can_be_late`: they have SLICE_COLUMN, which says how old they are.
        """
        if node.kind not in (JoinKind.INNER, JoinKind.SEMI):
            return None
        rows, other = sides[number], sides[1 - number]
        found = _aggregate_of(other.node)
        if found is None:
            return None
        aggregate, columns = found
        partial = planner.partial(aggregate)
        window = aggregate.window
        if partial is None or window.kind is not WindowKind.TUMBLE or not window.shared_slices:
            return None
        bound, by_id = node.bound, {f.id: f for f in other.node.fields}
        mine, theirs = (bound.left, bound.right) if number == 0 else (bound.right, bound.left)
        # The other's time is so long behind the end of its window.
        behind = {aggregate.end.id: 0, aggregate.window_time.id: 1_000}.get(columns.get(theirs, ""))
        if behind is None:
            return None
        lower, upper = (-bound.upper_us, -bound.lower_us) if number == 0 else (bound.lower_us, bound.upper_us)
        if (upper - lower) // window.size_us + 1 > _MOST_WINDOWS:
            return None
        compared: dict[str, str] = {}  # the aggregate's columns, and the shipped ones that they are equal to
        for key, name in zip(node.keys, rows.key_names, strict=True):
            side = (key.right if number == 0 else key.left).unnest()
            column = columns.get(side.name, "") if isinstance(side, exp.Column) else ""
            if column and by_id[side.name].type == key.type and key.type.kind in PLAIN:
                compared[column] = name
        if any(f.id not in compared for f in aggregate.keys):
            return None
        for call in aggregate.calls:
            accumulator = partial.accumulators.get(call.field.id)
            extreme = function_of(call).extreme
            if extreme and accumulator is not None and call.field.id in compared:
                plain = dict(zip(rows.spec.keys, rows.key_names, strict=True))
                return cls(
                    partial,
                    aggregate,
                    plain.get(mine, mine),
                    compared[call.field.id],
                    dict(zip(rows.key_names, equal_forms(planner, node), strict=True))[
                        compared[call.field.id]
                    ],
                    accumulator,
                    extreme == "greatest",
                    tuple(
                        (compared[f.id], name) for f, name in zip(aggregate.keys, partial.keys, strict=True)
                    ),
                    lower + behind,
                    upper + behind,
                    can_be_late,
                )
        return None

    @property
    def meaning(self) -> Form:
        """Which rows are kept, as far as the identity of a join does not say it."""
        return form("best of window", self.equal, self.greatest)

    def reads(self, stage: str) -> tuple[str, ...]:
        """The relations that the rows of a stage are compared with."""
        return (self.partial.relation,) if stage in self.partial.stages else ()

    def of_rows(self, rows: Callable[[Sequence[Block]], str]) -> Callable[[Sequence[Block]], str]:
        """The SQL of the rows of one stage's blocks, and here only of those that can have a partner."""

        def text(blocks: Sequence[Block]) -> str:
            found = rows(blocks)
            return self._sql(found) if blocks[0].stage in self.partial.stages else found

        return text

    def _sql(self, rows: str) -> str:
        """A SELECT of the rows of the SELECT `rows` that can have a partner, in its columns.

        A row whose window has nothing in the split is among them: the window is closed. So is the oldest row: if any is
        late, that one is, and all are looked for and reported.
        """
        window = self.aggregate.window
        size_us, reach_us = window.size_us, self.last_us - self.first_us
        first = window_sql.slice_end(window, f'("__us" + {self.first_us - 1})')
        timed = (
            f'SELECT *, epoch_us({quote_identifier(self.time)}) AS "__us", {first} AS "__first" FROM __rows'
        )
        value, best = f"a.{quote_identifier(self.value)}", quote_identifier(self.best)
        joins, kept = [], []
        for number in range(reach_us // size_us + 1):
            w, end = f"w{number}", f'a."__first" + {number * size_us}'
            same = [
                f"{w}.{quote_identifier(their)} = a.{quote_identifier(mine)}" for mine, their in self.same
            ]
            on = " AND ".join([f"{w}.{quote_identifier(SLICE_COLUMN)} = {end}", *same])
            joins.append(f"LEFT JOIN {quote_identifier(self.partial.relation)} AS {w} ON {on}")
            none_better = f"{w}.{best} IS NULL OR {value} {'>=' if self.greatest else '<='} {w}.{best}"
            sure = (number + 1) * size_us - 1 <= reach_us
            kept.append(none_better if sure else f'{end} <= a."__us" + {self.last_us} AND ({none_better})')
        if self.can_be_late:
            time = quote_identifier(SLICE_COLUMN)
            kept.append(f"a.{time} = (SELECT min({time}) FROM __rows)")
        # As in `top_filter`: a WITH hides tables of its names, and stands in a sub-query, as it can't follow a UNION ALL.
        lines = [
            "SELECT * FROM (",
            f"WITH __rows AS NOT MATERIALIZED (\n  {rows.replace(chr(10), chr(10) + '  ')}\n)",
            f'SELECT a.* EXCLUDE ("__us", "__first")\nFROM ({timed}) AS a',
            *joins,
            f"WHERE {' OR '.join(f'({one})' for one in kept)}",
            ") AS t",
        ]
        return "\n".join(lines)


def _aggregate_of(node: Node) -> tuple[WindowAggregate, dict[str, str]] | None:
    """The window aggregate that a relation's rows are of, and which of its columns each of the relation's is."""
    columns = {f.id: f.id for f in node.fields}
    while isinstance(node, Project | Filter):
        if isinstance(node, Project):
            items = {f.id: e.unnest() for f, e in zip(node.fields, node.items, strict=True)}
            columns = {
                mine: items[theirs].name
                for mine, theirs in columns.items()
                if isinstance(items[theirs], exp.Column)
            }
        node = node.input
    return (node, columns) if isinstance(node, WindowAggregate) else None
