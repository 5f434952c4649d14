"""An expression of the new query over the columns of an old state: sub-expressions are found by what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_operators.plan.state_schema import StateField
from sqlstream_operators.plan.types import INTEGERS, Kind, SqlType
from sqlstream_planner.edits.derivations.truncated import follows, read_of_time, truncations
from sqlstream_planner.edits.derivations.zeros import FLOATING, Zeros, zeros_of
from sqlstream_planner.identity.form import Form
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import Filter, Node, Project, Unnest, WindowFunction, column, sql
from sqlstream_planner.sql.as_written import as_written, without_marks

#: Types of which values that are equal are the same. 0.0 and -0.0 are not, nor a month and 30 days: a function may show
#: them apart, and a state has one of them for both.
_EQUAL_MEANS_SAME = frozenset(
    {
        *INTEGERS, Kind.BOOLEAN, Kind.DECIMAL, Kind.VARCHAR, Kind.BLOB, Kind.UUID,
        Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ,
    }
)  # fmt: skip
#: An expression with more parts than this is not looked into.
_MOST_PARTS = 500


@dataclass(slots=True)
class Rewriter:
    """Rewrites expressions over `meanings`' nodes in terms of `stored`, the fields of a state by what they mean."""

    meanings: Meanings
    stored: Mapping[Form, StateField]
    _columns: dict[tuple[int, str], exp.Expr | None] = field(default_factory=dict)

    def sql(self, expression: exp.Expr, node: Node) -> str | None:
        """DuckDB SQL of an expression over `node`'s columns; None if it needs something that is not stored."""
        found = self.expression(expression, node)
        return None if found is None else sql(found)

    def expression(self, expression: exp.Expr, node: Node) -> exp.Expr | None:
        """As `sql`, as an expression."""
        found = self._any(expression, node)
        return found if found is None or self._zeros(found) is Zeros.SAME else None

    def key_sql(self, expression: exp.Expr, node: Node) -> str | None:
        """As `sql`, of a value that is stored as a key: 0.0 and -0.0 may be either."""
        found = self._any(expression, node)
        if found is None:
            return None
        match self._zeros(found):
            case Zeros.SAME:
                return sql(found)
            case Zeros.EITHER:
                return f"({sql(found)}) + 0"  # which makes 0.0 of -0.0
        return None

    def _zeros(self, found: exp.Expr) -> Zeros:
        if isinstance(found, exp.Column):
            return Zeros.SAME  # it is stored as the new state will store it
        floats = (f.name for f in self.stored.values() if f.type.kind in FLOATING)
        return zeros_of(found, frozenset(floats))

    def _any(self, expression: exp.Expr, node: Node) -> exp.Expr | None:
        whole = self.stored.get(self.meanings.expression(expression, node))
        if whole is not None:
            return column(whole.name)
        if sum(1 for _ in expression.walk()) > _MOST_PARTS or expression.find(exp.Lambda):
            return None
        found = self._rewritten(expression, node)
        return None if found is None else without_marks(found)

    def _rewritten(self, part: exp.Expr, node: Node) -> exp.Expr | None:
        """A copy of a part of an expression with what is stored in the place of what means the same."""
        if isinstance(part, exp.Column):
            return self._column(part.name, node)
        if part.find(exp.Column) is None:
            return part.copy()
        known = self.stored.get(self.meanings.expression(part, node))
        if known is not None and _is_usable(known.type):
            return column(known.name)
        if as_written(part) is not None:  # what DuckDB runs is needed, and no mark is left
            inside = self._rewritten(part.this, node)
            return None if inside is None else exp.paren(inside, copy=False)
        cut = self._cut(part, node)
        if cut is not None:
            return cut
        made = part.copy()
        for old, new in zip(list(part.iter_expressions()), list(made.iter_expressions()), strict=True):
            inside = self._rewritten(old, node)
            if inside is None:
                return None
            new.replace(inside)
        return made

    def _cut(self, part: exp.Expr, node: Node) -> exp.Expr | None:
        """A function of a time over that time cut to a unit, if such a one is stored and has all that it reads."""
        read = read_of_time(part)
        if read is None:
            return None
        unit, of = read
        field = next((f for f in node.fields if f.id == of.name), None)
        if field is None or field.type.kind not in (Kind.TIMESTAMP, Kind.DATE):
            return None  # a time with a zone is cut by the zone's hours
        meaning = self.meanings.expression(of, node)
        for kept, time, stored in truncations(self.stored):
            if time == meaning and follows(unit, kept):
                made = part.copy()
                again = next(c for c in made.find_all(exp.Column) if c.name == of.name)
                again.replace(exp.cast(column(stored.name), str(field.type), dialect="duckdb"))
                return made
        return None

    def _column(self, id_: str, node: Node) -> exp.Expr | None:
        key = (id(node), id_)
        if key not in self._columns:
            self._columns[key] = self._found(id_, node)
        found = self._columns[key]
        return None if found is None else found.copy()

    def _found(self, id_: str, node: Node) -> exp.Expr | None:
        """A column of a node: stored as it is, or computed by a projection from what is."""
        known = self.stored.get(self.meanings.columns(node)[id_])
        if known is not None:
            return column(known.name) if _is_usable(known.type) else None
        if isinstance(node, Project):
            item = next(e for f, e in zip(node.fields, node.items, strict=True) if f.id == id_)
            inside = self._rewritten(item, node.input)
            return None if inside is None else exp.paren(inside, copy=False)
        if isinstance(node, Filter | WindowFunction | Unnest) and any(f.id == id_ for f in node.input.fields):
            return self._column(id_, node.input)
        return None


def _is_usable(type_: SqlType) -> bool:
    """Whether an expression over a stored column of a type may be what it is over the rows; `zeros_of` says it of FLOATs."""
    return equal_means_same(type_) or type_.kind in FLOATING


def equal_means_same(type_: SqlType) -> bool:
    """Whether equal values of a type are the same value, whatever is computed of them."""
    return type_.kind in _EQUAL_MEANS_SAME
