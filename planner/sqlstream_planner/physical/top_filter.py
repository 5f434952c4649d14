"""SQL that leaves out rows of an epoch's split that can't be among the first of their partition."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.plan.types import INTEGERS, Kind, quote_identifier
from sqlstream_planner.logical import Fields, OrderTerm

#: Types whose values DuckDB groups, joins and compares alike.
PLAIN = frozenset(
    {
        *INTEGERS, Kind.BOOLEAN, Kind.DECIMAL, Kind.VARCHAR, Kind.UUID,
        Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ,
    }
)  # fmt: skip


#: DuckDB's min(x, n) and max(x, n) take a smaller n.
_MOST_BEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Keep:
    """The first `limit` rows of each partition by `order`, of append-only rows; equals by all `fields`."""

    partition: tuple[str, ...]
    order: tuple[OrderTerm, ...]
    fields: Fields
    limit: int

    def sql(self, rows: str) -> str:
        """A SELECT of the rows of the SELECT `rows` that can be wanted, in its columns.

        Where the first term of the order is a plain column, rows that are behind the last value of it that is wanted are
        left out by an aggregate and a join, which cost a third of sorting whole rows. Rows that are equal in it all pass;
        further terms decide among these.
        """
        if not self._by_value():
            return self._by_rank_sql(rows)
        found = self._by_value_sql(rows.replace("\n", "\n  "))
        return found if len(self.order) == 1 else self._by_rank_sql(found)

    def _by_rank_sql(self, rows: str) -> str:
        inner = rows.replace("\n", "\n  ")
        terms = [term.sql for term in self.order]
        terms += [f"{quote_identifier(f.id)} ASC NULLS FIRST" for f in self.fields]
        by = ", ".join(quote_identifier(p) for p in self.partition)
        window = f"({f'PARTITION BY {by} ' if by else ''}ORDER BY {', '.join(terms)})"
        return f"SELECT * FROM (\n  {inner}\n) AS t\nQUALIFY row_number() OVER {window} <= {self.limit}"

    def _by_value(self) -> bool:
        by_id = {f.id: f for f in self.fields}
        return (
            0 < self.limit < _MOST_BEST
            and bool(self.order)
            and self.order[0].column not in self.partition
            and all(by_id[id_].type.kind in PLAIN for id_ in (*self.partition, self.order[0].column))
        )

    def _by_value_sql(self, inner: str) -> str:
        term = self.order[0]
        value = quote_identifier(term.column)
        best = "max" if term.descending else "min"
        last = f"{best}({value})" if self.limit == 1 else f"{best}({value}, {self.limit})[{self.limit}]"
        keys = [(quote_identifier(p), f"__k{number}") for number, p in enumerate(self.partition)]
        listed = "".join(f"{key} AS {name}, " for key, name in keys)
        by = f" GROUP BY {', '.join(key for key, _ in keys)}" if keys else ""
        same = " AND ".join(f"a.{key} IS NOT DISTINCT FROM b.{name}" for key, name in keys) or "TRUE"
        # Without so many values that are not NULL nothing is left out; a NULL stands before or behind all.
        first = f" OR a.{value} IS NULL" if term.nulls_first else ""
        # A WITH hides a table of the same name from its own query: no table is called so. It stands in a
        # sub-query, as a WITH can't follow a UNION ALL.
        return (
            "SELECT * FROM (\n"
            f"WITH __split_rows AS MATERIALIZED (\n  {inner}\n),\n"
            f"__split_last AS (SELECT {listed}{last} AS __last FROM __split_rows{by})\n"
            f"SELECT a.* FROM __split_rows AS a JOIN __split_last AS b ON {same}\n"
            f"WHERE b.__last IS NULL OR a.{value} {'>=' if term.descending else '<='} b.__last{first}\n) AS t"
        )
