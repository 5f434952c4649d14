"""A SELECT without grouping, to which projections and filters are added until rows must be made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier, spelled
from sqlstream_planner.logical import Fields, column, sql, substitute


@dataclass(frozen=True, slots=True)
class Select:
    """`FROM source WHERE …`, and what each column is in terms of it, by the column's id.

    `named`: the source is the name of a relation.
    """

    source: str
    columns: Mapping[str, exp.Expr]
    where: tuple[exp.Expr, ...] = ()
    named: bool = False

    @property
    def is_by_id(self) -> bool:
        """Whether it is nothing but its source, whose columns are called by their ids."""
        return not self.where and all(_is_column(e, id_) for id_, e in self.columns.items())

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but its source, whose columns may be called otherwise."""
        return not self.where and all(isinstance(e, exp.Column) for e in self.columns.values())

    def over(self, expression: exp.Expr) -> exp.Expr:
        """An expression over column ids in terms of the source."""
        return substitute(expression, self.columns)

    def text(self, items: Iterable[tuple[str, str]], *, distinct: bool = False) -> str:
        """It as SQL with `items`: (SQL over the source, output name).

        >>> Select('"t"', {"x": column("a")}, (column("b"),)).text([('"a"', "x")])
        'SELECT\\n  "a" AS "x"\\nFROM "t"\\nWHERE "b"'
        """
        written = [_item(text, name) for text, name in items] or ['1 AS "__one"']
        listed = ",\n  ".join(written)
        conditions = " AND ".join(operand(w) for w in self.where)
        word = "SELECT DISTINCT" if distinct else "SELECT"
        return f"{word}\n  {listed}\nFROM {self.source}" + (f"\nWHERE {conditions}" if conditions else "")

    def text_of(self, ids: Iterable[str], extra: Sequence[tuple[str, str]] = ()) -> str:
        """It as SQL with the columns `ids`, called by their ids, and `extra` items."""
        return self.text([*((sql(self.columns[id_]), id_) for id_ in ids), *extra])

    def as_item(
        self, alias: str, ids: Iterable[str] | None = None, extra: Sequence[tuple[str, str]] = ()
    ) -> str:
        """It as an item of a FROM whose columns are called by their ids: at least those of `ids`, and `extra` ones."""
        if self.named and self.is_by_id and not extra:
            return f"{self.source} AS {alias}"
        wanted = self.columns if ids is None else ids
        return f"(\n{indented(self.text_of(wanted, extra))}\n) AS {alias}"


def by_id(source: str, fields: Fields, *, named: bool = False) -> Select:
    """What a source holds whose columns are called by the ids of `fields`."""
    return Select(source, {f.id: column(f.id) for f in fields}, named=named)


def beside(rows: Select, ids: Sequence[str], item: str) -> str:
    """The columns `ids` of some rows, and an item that is written over them."""
    listed = ",\n  ".join([names(ids), item] if ids else [item])
    return f"SELECT {listed}\nFROM {rows.as_item('__rows', ids)}"


def operand(predicate: exp.Expr) -> str:
    """A predicate as SQL between ANDs."""
    text = sql(predicate)
    return f"({text})" if isinstance(predicate, exp.Or | exp.Connector) else text


def indented(text: str) -> str:
    """The text two spaces further right."""
    return "\n".join(f"  {line}" for line in text.split("\n"))


def cast(text: str, type_: SqlType) -> str:
    """SQL as a value of a type, if that can be written."""
    return text if type_.kind in (Kind.UNKNOWN, Kind.NULL) else f"CAST({text} AS {spelled(type_)})"


def names(ids: Iterable[str]) -> str:
    """Columns by their ids.

    >>> names(["a", "b"])
    '"a", "b"'
    """
    return ", ".join(quote_identifier(id_) for id_ in ids)


def _item(text: str, name: str) -> str:
    quoted = quote_identifier(name)
    return quoted if text == quoted else f"{text} AS {quoted}"


def _is_column(expression: exp.Expr, id_: str) -> bool:
    return isinstance(expression, exp.Column) and expression.name == id_ and not expression.table
