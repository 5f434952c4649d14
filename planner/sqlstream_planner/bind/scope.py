"""The columns that a name can mean in one SELECT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.diagnostics import counted, did_you_mean
from sqlstream_planner.logical import Field, Fields, Node, column
from sqlstream_planner.sql.written_calls import written_call


def is_process_time(expression: exp.Expr) -> bool:
    """Whether an expression is the call PROCTIME()."""
    call = written_call(expression)
    return call is not None and call.name.lower() == "proctime"


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations of FROM, left to right, and the SELECT list's aliases where they may be used.

    `later`: lower-case aliases that may not be used yet, for the message. `held`: the SQL of resolved expressions
    that a column already holds, with its id.
    """

    context: BindContext
    relations: tuple[Relation, ...]
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    later: frozenset[str] = frozenset()
    held: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> Fields:
        """All columns, left to right."""
        every = (f for r in self.relations for f in (*r.fields, *r.bare))
        return tuple({f.id: f for f in every}.values())

    def over(self, node: Node) -> Scope:
        """The same, knowing of its columns what `node` gives them as."""
        return replace(self, relations=tuple(r.given_by(node) for r in self.relations))

    def by_id(self, id_: str) -> Field | None:
        """The field with this id."""
        return next((f for f in self.fields if f.id == id_), None)

    def resolve(self, expression: exp.Expr) -> exp.Expr:
        """A copy of the expression whose columns are ids of this scope, places kept.

        Raises DiagnosticError for unknown and ambiguous names, and for a sub-query that nothing has taken out.
        """
        inside = expression.find(exp.Query, exp.Exists)
        if inside is not None:
            self.context.refuse_subquery(inside)

        listed = expression.find(exp.Comprehension)
        if listed is not None:
            self.context.unsupported(
                listed,
                "a list comprehension with positions",
                help="write list_transform(a, lambda x, i: x + i)",
            )

        def swap(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.PositionalColumn):
                found: exp.Expr = column(self.at_position(node).id)
            elif not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return node
            else:
                found = self._column(node)
            # Problems found later are reported at the place that the user wrote.
            for part in found.walk():
                if "span" not in part.meta and "span" in node.meta:
                    part.meta["span"] = node.meta["span"]
            return found

        return expression.copy().transform(swap, copy=False)

    def at_position(self, node: exp.PositionalColumn) -> Field:
        """The column that `#2` means: the second of all that FROM gives. Raises DiagnosticError."""
        fields = [f for r in self.relations if not r.hidden for f in r.fields]
        number = int(node.name)
        if not 1 <= number <= len(fields):
            self.context.fail(
                node,
                "SQL010",
                f"unknown column `#{number}`",
                notes=(f"FROM gives {counted(len(fields), 'column')}",),
            )
        return fields[number - 1]

    def _column(self, node: exp.Column) -> exp.Expr:
        parts = [p.name for p in node.parts]
        found = self.find(node)
        if found is not None:
            return found
        if len(parts) == 1 and parts[0].lower() in self.aliases:
            return exp.paren(self.aliases[parts[0].lower()].copy(), copy=False)
        row = self._row(parts[0]) if len(parts) == 1 else None
        if row is not None:
            return row
        outer = self.context.outer_column(node)
        if outer is not None:
            return outer
        self.unknown(node, parts)

    def _row(self, name: str) -> exp.Expr | None:
        """A whole row of the relation that is called so, as a struct; None if there is none."""
        named = [r for r in self.named(name) if not r.hidden]
        if len(named) != 1:
            return None
        shown = [f for f in named[0].fields if f.id not in self.context.process_times]
        fields = [
            exp.PropertyEQ(this=exp.to_identifier(f.name, quoted=True), expression=column(f.id))
            for f in shown
        ]
        return exp.Struct(expressions=fields) if fields else None

    def has(self, name: str) -> bool:
        """Whether a bare name means a column of FROM, or several."""
        return any(f.name.lower() == name.lower() for r in self.relations for f in r.bare) or any(
            name.lower() in r.other_names for r in self.relations
        )

    def named(self, table: str) -> list[Relation]:
        """The relations that are called so."""
        return [r for r in self.relations if r.alias is not None and r.alias.lower() == table.lower()]

    def find(self, node: exp.Column) -> exp.Expr | None:
        """The column of a relation that a name means, perhaps a field of it; None if there is none."""
        parts = [p.name for p in node.parts]
        for qualified in (True, False):
            if qualified and len(parts) < 2:
                continue
            found = self._find(node, parts[0] if qualified else None, parts[1] if qualified else parts[0])
            if found is not None and not qualified and self._names_a_table_around(parts, found):
                continue
            if found is not None:
                result: exp.Expr = column(found.id)
                for name in parts[2 if qualified else 1 :]:
                    result = exp.Dot(this=result, expression=exp.to_identifier(name, quoted=True))
                return result
        return None

    def _names_a_table_around(self, parts: list[str], f: Field) -> bool:
        """Whether `a.x` can't be a field of the column `a`, as it has none, but is a column of a table around."""
        return (
            len(parts) > 1
            and parts[1].lower() not in {name.lower() for name, _ in f.type.fields}
            and any(rows.scope.named(parts[0]) for rows in self.context.outer)
        )

    def _find(self, node: exp.Column, table: str | None, name: str) -> Field | None:
        places = [
            r
            for r in self.relations
            if table is None or (r.alias is not None and r.alias.lower() == table.lower())
        ]
        named = [
            (r, f)
            for r in places
            for f in (r.bare if table is None else r.fields)
            if f.name.lower() == name.lower()
        ] or [(r, f) for r in places for f in r.fields if f.name == r.other_names.get(name.lower())]
        matches = [f for r, f in named if table is not None or not r.last] or [f for _, f in named]
        if len(matches) > 1:
            owners = [r.alias for r, f in named if f in matches]
            shown = " and in ".join(f"`{o}`" if o else "a sub-query without a name" for o in owners)
            apart = next((o for o in owners if o and owners.count(o) == 1), None)
            self.context.fail(
                node,
                "SQL011",
                f"column `{name}` is ambiguous",
                notes=(
                    f"{len(owners)} columns there are called so"
                    if len(set(owners)) == 1
                    else f"it is in {shown}",
                ),
                help=f"write which one, such as `{apart}.{name}`, or give the columns different names"
                if apart
                else f"give the columns different names, such as {name} AS other_{name}",
            )
        if matches and matches[0].id in self.context.unread_times:
            self.context.changes_each_time(node, f"`{matches[0].name}`, which is PROCTIME(),")
        return matches[0] if matches else None

    def is_process_time(self, node: exp.Expr) -> bool:
        """Whether an expression is PROCTIME(), or a column that a table declares as that."""
        if not isinstance(node, exp.Column):
            return is_process_time(node)
        parts = [p.name.lower() for p in node.parts]
        return any(
            f.id in self.context.process_times and f.name.lower() == parts[-1]
            for r in self.relations
            if len(parts) == 1 or (r.alias or "").lower() == parts[-2]
            for f in r.fields
        )

    def unknown(self, node: exp.Column, parts: list[str]) -> NoReturn:
        """Refuse a name that means nothing here, with what it may have been meant for. Raises DiagnosticError."""
        name = ".".join(parts)
        tables = [r.alias for r in self.relations if r.alias is not None and not r.last]
        if len(parts) > 1 and parts[0].lower() not in (t.lower() for t in tables):
            for rows in reversed(self.context.outer):
                if rows.scope.named(parts[0]):
                    rows.scope.unknown(node, parts)
            known = [f.name for f in self.fields]
            near = did_you_mean(parts[0], [*tables, *known])
            self.context.fail(
                node,
                "SQL012",
                f"neither a table nor a column `{parts[0]}` is in scope",
                notes=(f"in FROM: {_listed(tables)}", f"columns: {_listed(known)}"),
                help=f"did you mean `{'.'.join([near, *parts[1:]])}`?" if near else None,
            )
        owner = next(
            (r for r in self.relations if r.alias and len(parts) > 1 and r.alias.lower() == parts[0].lower()),
            None,
        )
        fields = owner.fields if owner is not None else self.fields
        names = [f.name for f in fields]
        near = did_you_mean(parts[-1], names)
        nested = [
            f"{f.name}.{inner}"
            for f in fields
            if f.type.kind is Kind.STRUCT
            for inner, _ in f.type.fields
            if inner.lower() == parts[-1].lower()
        ]
        suggestion = nested[0] if nested else near
        help_ = f"did you mean `{suggestion}`?" if suggestion else None
        if len(parts) == 1 or parts[-1].lower() == "rowid":
            help_ = self._other_help(node, parts[-1]) or help_
        if not names:
            notes: tuple[str, ...] = ("there is no FROM, so no column can be used",)
        else:
            where = f"`{owner.alias}` has" if owner is not None and owner.alias else "in scope are"
            left_out = self.context.left_out(parts[-1])
            notes = (*left_out, f"{where} the columns {_listed(names)}")
            help_ = None if left_out else help_
        self.context.fail(node, "SQL010", f"unknown column `{name}`", notes=notes, help=help_)

    def _other_help(self, node: exp.Column, name: str) -> str | None:
        """What the user meant if not a misspelt column: an alias that comes later, or a string."""
        if name.lower() in self.later:
            return (
                f"`{name}` is a name of the SELECT list, which is computed after WHERE: repeat its expression, "
                "or filter around a sub-query"
            )
        if name.lower() == "rowid":
            return "ROW_NUMBER() OVER () - 1 numbers the rows of a table in the order in which they are read"
        if name[0] in _CURLY:
            return f"strings stand in straight quotes: '{name.strip(_CURLY)}'"
        span = self.context.span(node)
        text = self.context.rendered.sources.get(span.file, "").split("\n")
        line = text[span.line - 1] if 0 < span.line <= len(text) else ""
        if line[span.column - 1 : span.column] == '"':
            return f"a string stands in single quotes: '{name}'; double quotes are for names"
        return None


_CURLY = "\u2018\u2019\u201c\u201d"


def _listed(names: list[str], most: int = 30) -> str:
    shown = ", ".join(f"`{n}`" for n in names[:most]) or "nothing"
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
