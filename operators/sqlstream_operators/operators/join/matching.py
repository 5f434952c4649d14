"""Which rows of two sides meet, as DuckDB's SQL over rows with how often each was there and is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import concatenated, empty, quoted, with_weight
from sqlstream_operators.plan.arranged_spec import IS, ROW, WAS, ArrangedJoinSpec
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.types import BIGINT, BLOB, BOOLEAN, spelled

from .join_side import same_keys
from .side_rows import SideRows

_AT = "__at"

#: By the type of a join, the sides (0: left) of which it matters whether a row has a partner.
WATCHED: Mapping[str, tuple[int, ...]] = {
    "inner": (),
    "left": (0,),
    "right": (1,),
    "full": (0, 1),
    "semi": (0,),
    "anti": (0,),
}


@dataclass(frozen=True, slots=True)
class Met:
    """One side in an epoch: the rows that change, and rows that don't but may be in pairs that do."""

    changed: pa.Table
    rest: pa.Table

    @property
    def all(self) -> pa.Table:
        """Both."""
        return concatenated([self.changed, self.rest])


class Matching:
    """What a join of two sides makes of rows of its sides. `sides` are the left and the right."""

    def __init__(
        self, spec: JoinSpec | IntervalJoinSpec | ArrangedJoinSpec, sides: tuple[SideRows, SideRows]
    ) -> None:
        self._spec = spec
        self._sides = sides
        self._keys = quoted(spec.keys)
        self._listed = ", ".join(self._keys)
        self._same = same_keys("l", "r", spec.keys)
        self._condition = f" AND ({spec.condition})" if spec.condition is not None else ""

    def pairs(self, duck: DuckSession, left: Met, right: Met) -> list[pa.Table]:
        """The pairs that change, each once: the output's columns and WEIGHT_COLUMN."""
        found = []
        for mine, theirs in ((left.changed, right.all), (left.rest, right.changed)):
            if mine.num_rows and theirs.num_rows:
                with self._registered(duck, {"l": (mine, 0), "r": (theirs, 1)}) as names:
                    found.append(self._run(duck, self._pairs_sql(names), with_weight(self._spec.output)))
        return found

    def _pairs_sql(self, names: Mapping[str, str]) -> str:
        weight = f"l.{IS} * r.{IS} - l.{WAS} * r.{WAS}"
        return (
            f"SELECT {', '.join(quoted(self._spec.output))}, {weight} AS {WEIGHT_COLUMN} "
            f"FROM {names['l']} AS l JOIN {names['r']} AS r ON {self._same}{self._condition} WHERE {weight} <> 0"
        )

    def partners_by_key(self, duck: DuckSession, number: int, theirs: pa.Table) -> pa.Table:
        """Which keys had and have a row: the keys, and WAS and IS as BOOLEAN; `theirs` are of side `number`."""
        schema = (*self._spec.keys, Column(WAS, BOOLEAN), Column(IS, BOOLEAN))
        if not theirs.num_rows:
            return empty(schema)
        by = f" GROUP BY {self._listed}" if self._keys else ""
        keys = "".join(f"{key}, " for key in self._keys)
        with self._registered(duck, {"t": (theirs, number)}) as names:
            sql = f"SELECT {keys}bool_or({WAS} > 0) AS {WAS}, bool_or({IS} > 0) AS {IS} FROM {names['t']}{by}"
            return self._run(duck, sql, schema)

    def partners_by_row(self, duck: DuckSession, number: int, mine: pa.Table, theirs: pa.Table) -> pa.Table:
        """Which rows of side `number` had and have a partner: their numbers in `mine`, and WAS and IS as BOOLEAN."""
        schema = (Column(_AT, BIGINT), Column(WAS, BOOLEAN), Column(IS, BOOLEAN))
        if not mine.num_rows or not theirs.num_rows:
            return empty(schema)
        own, other = ("l", "r") if number == 0 else ("r", "l")
        with self._registered(duck, {own: (mine, number), other: (theirs, 1 - number)}) as names:
            sql = (
                f"SELECT {own}.{_AT}, bool_or({other}.{WAS} > 0) AS {WAS}, bool_or({other}.{IS} > 0) AS {IS} "
                f"FROM {names['l']} AS l JOIN {names['r']} AS r ON {self._same}{self._condition} GROUP BY {own}.{_AT}"
            )
            return self._run(duck, sql, schema)

    def changing(self, partners: pa.Table) -> pa.Table:
        """The keys of `partners_by_key` that had a row and have none, or the other way round."""
        was, now = (np.asarray(partners.column(name)) for name in (WAS, IS))
        return partners.filter(pa.array(was.astype(bool) != now.astype(bool)))

    def alone(self, duck: DuckSession, number: int, mine: pa.Table, partners: pa.Table) -> pa.Table:
        """What the partners of rows of side `number` make of each: the output's columns and WEIGHT_COLUMN.

        A row beside NULLs while it has none; of a semi join while it has one.
        """
        schema = with_weight(self._spec.output)
        if not mine.num_rows:
            return empty(schema)
        own = {column.name for column in self._sides[number].spec.columns}
        shown = ", ".join(
            f"m.{name}" if column.name in own else f"CAST(NULL AS {spelled(column.type)}) AS {name}"
            for column, name in zip(self._spec.output, quoted(self._spec.output), strict=True)
        )
        by_row = _AT in partners.column_names
        same = f"m.{_AT} = p.{_AT}" if by_row else same_keys("m", "p", self._spec.keys)
        there = "" if self._spec.type == "semi" else "NOT "
        weight = " - ".join(
            f"CASE WHEN {there}coalesce(p.{when}, FALSE) THEN m.{when} ELSE 0 END" for when in (IS, WAS)
        )
        known: Schema = (Column(_AT, BIGINT),) if by_row else self._spec.keys
        with self._registered(duck, {"m": (mine, number)}) as names:
            duck.register("__p", partners, (*known, Column(WAS, BOOLEAN), Column(IS, BOOLEAN)))
            try:
                sql = (
                    f"SELECT {shown}, {weight} AS {WEIGHT_COLUMN} FROM {names['m']} AS m "
                    f"LEFT JOIN __p AS p ON {same} WHERE {weight} <> 0"
                )
                return self._run(duck, sql, schema)
            finally:
                duck.drop("__p")

    def keys_of(
        self,
        duck: DuckSession,
        counted: pa.Table,
        *,
        also: pa.Table | None = None,
        only: pa.Table | None = None,
        but: pa.Table | None = None,
    ) -> pa.Table:
        """The distinct keys, without NULLs, of `counted` and `also`, and as ROW how many rows of `counted` have each.

        `only` those that `only` has, and none that `but` has.
        """
        given = {
            name: rows
            for name, rows in {"c": counted, "a": also, "o": only, "b": but}.items()
            if rows is not None
        }
        keys = "".join(f"{key}, " for key in self._keys)
        rows_sql = f"SELECT {keys}1 AS n FROM __c" + (
            f" UNION ALL SELECT {keys}0 FROM __a" if "a" in given else ""
        )
        where = " AND ".join(f"{key} IS NOT NULL" for key in self._keys) or "TRUE"
        by = f" GROUP BY {self._listed}" if self._keys else ""
        sql = (
            f"SELECT l.* FROM (SELECT {keys}CAST(sum(n) AS BIGINT) AS {ROW} FROM ({rows_sql}) AS r WHERE {where}{by}"
            f" HAVING count(*) > 0) AS l"
        )
        for name, word in (("o", "SEMI"), ("b", "ANTI")):
            if name in given:
                sql += f" {word} JOIN __{name} AS {name} ON {same_keys('l', name, self._spec.keys)}"
        try:
            for name, rows in given.items():
                schema = (*self._spec.keys, Column(ROW, BLOB))  # a column where there are no keys
                duck.register(f"__{name}", rows.select([column.name for column in schema]), schema)
            return self._run(duck, sql, (*self._spec.keys, Column(ROW, BIGINT)))
        finally:
            for name in given:
                duck.drop(f"__{name}")

    def _run(self, duck: DuckSession, sql: str, schema: Schema) -> pa.Table:
        return conformed(duck.query(sql), schema, f"rows of a {self._spec.type} join")

    @contextmanager
    def _registered(
        self, duck: DuckSession, tables: Mapping[str, tuple[pa.Table, int]]
    ) -> Iterator[dict[str, str]]:
        """Rows of sides, with their numbers, as relations; gives what to write after FROM."""
        names = {}
        try:
            for alias, (rows, number) in tables.items():
                rows = rows.append_column(_AT, pa.array(np.arange(rows.num_rows)))
                schema = (*self._sides[number].schema, Column(_AT, BIGINT))
                names[alias] = duck.source(f"__{alias}", rows, schema)
            yield names
        finally:
            for alias in names:
                duck.drop(f"__{alias}")


def has_empty_row(rows: pa.Table, columns: Schema) -> bool:
    """Whether a row may be NULL in all of some columns (looked at column by column)."""
    return all(rows.column(column.name).null_count for column in columns)
