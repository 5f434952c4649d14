"""SQL that DuckDB and PostgreSQL both understand, to apply changes to a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlstream.connectors.database.changes import CHANGE_COLUMN, Counts
from sqlstream.connectors.database.names import MISSING, TAKEN
from sqlstream_operators.plan.types import quote_identifier


def columns_of(names: Sequence[str], relation: str = "") -> str:
    """A list of columns.

    >>> print(columns_of(["a", "b"], "t"))
    t."a", t."b"
    """
    before = f"{relation}." if relation else ""
    return ", ".join(before + quote_identifier(name) for name in names)


class KeyedStatements:
    """Statements that apply the relation `changes` (columns and CHANGE_COLUMN) to `table` by its primary key.

    Both names are quoted already. `delete` and `update` must each touch as many rows as they have changes.
    `forgets`: a row of a key may come again though the one before did not go (state has a time to live). Columns that are
    `left` have no value of a former query in rows that are replaced.
    """

    def __init__(
        self,
        table: str,
        changes: str,
        names: Sequence[str],
        key: Sequence[str],
        *,
        forgets: bool = False,
        left: Sequence[str] = (),
    ) -> None:
        self.match = " AND ".join(f"t.{quote_identifier(k)} = d.{quote_identifier(k)}" for k in key)
        values = [name for name in names if name not in key]
        columns = columns_of(names)
        self.delete = (
            f"DELETE FROM {table} AS t USING {changes} AS d WHERE {self.match} AND d.{CHANGE_COLUMN} = -1"
        )
        assigned = ", ".join(f"{quote_identifier(v)} = d.{quote_identifier(v)}" for v in values)
        self.update = f"UPDATE {table} AS t SET {assigned} FROM {changes} AS d WHERE {self.match} AND d.{CHANGE_COLUMN} = 0"
        self.insert = f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {changes} AS d WHERE d.{CHANGE_COLUMN} = 1"
        excluded = ", ".join(f"{quote_identifier(v)} = excluded.{quote_identifier(v)}" for v in values)
        action = f"DO UPDATE SET {excluded}" if values else "DO NOTHING"
        self.upsert = (
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {changes} AS d "
            f"ON CONFLICT ({columns_of(key)}) {action}"
        )
        there = f"SELECT 1 FROM {changes} AS d WHERE {self.match}"
        same = " AND ".join(
            f"t.{quote_identifier(v)} IS NOT DISTINCT FROM d.{quote_identifier(v)}" for v in values
        )
        #: Make the rows of `changes` all that the table has; what has not changed is not touched.
        self.replace = (
            f"DELETE FROM {table} AS t WHERE NOT EXISTS ({there})",
            *(f"UPDATE {table} SET {quote_identifier(name)} = DEFAULT" for name in left),
            *(
                [
                    f"UPDATE {table} AS t SET {assigned} FROM {changes} AS d WHERE {self.match} AND NOT ({same})"
                ]
                if values
                else []
            ),
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {changes} AS d "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE {self.match})",
        )
        key_columns = ", ".join(f"CAST(d.{quote_identifier(k)} AS VARCHAR)" for k in key)
        self.missing = (
            f"SELECT {key_columns} FROM {changes} AS d WHERE d.{CHANGE_COLUMN} <= 0 "
            f"AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE {self.match}) LIMIT 1"
        )
        self.taken = (
            f"SELECT {key_columns} FROM {changes} AS d WHERE d.{CHANGE_COLUMN} = 1 "
            f"AND EXISTS (SELECT 1 FROM {table} AS t WHERE {self.match}) LIMIT 1"
        )
        #: Whether `insert` touches as many rows as it has changes.
        self.counted = not forgets or bool(values)
        if forgets:
            self.insert += f" ON CONFLICT ({columns_of(key)}) {action}"
            self.taken = f"SELECT {key_columns} FROM {changes} AS d WHERE FALSE"

    def apply(
        self,
        counts: Counts,
        refuse_if: Callable[[str, str], None],
        changed: Callable[[str], int],
        wrong: Callable[[int, int], Exception],
    ) -> None:
        """Run what these changes need; `refuse_if` raises if its query finds a row, `changed` runs a statement.

        Raises what `wrong` makes of a statement that changed other than the expected number of rows.
        """
        if counts.go or counts.change:
            refuse_if(self.missing, MISSING)
        if counts.come:
            refuse_if(self.taken, TAKEN)
        for statement, expected in (
            (self.delete, counts.go),
            (self.update, counts.change),
            (self.insert, counts.come),
        ):
            if expected:
                made = changed(statement)
                if made != expected and (self.counted or statement is not self.insert):
                    raise wrong(made, expected)
