"""`*` and `t.*` in a SELECT list, with EXCLUDE, REPLACE and RENAME: the columns that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_operators.plan.types import UNKNOWN, Kind
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import did_you_mean
from sqlstream_planner.logical import Field, column


def star_of(item: exp.Expr) -> exp.Star | None:
    """The star that an item of the SELECT list is, None if it is something else."""
    if isinstance(item, exp.Star):
        return item
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        return item.this
    return None


def expand_star(
    context: BindContext, item: exp.Expr, star: exp.Star, scope: Scope
) -> list[tuple[str, exp.Expr]]:
    """The columns that `item`, which is `star` or that of one table, gives: names and expressions over them.

    Raises DiagnosticError, also for a column in EXCLUDE, REPLACE or RENAME that the star does not have.
    """
    of_struct = _fields_of_struct(context, item, scope)
    if of_struct is not None:
        return _changed_fields(context, star, of_struct, scope)
    shown = _shown(context, item, scope)
    changes = _Changes.read(context, star, shown)
    items: list[tuple[str, exp.Expr]] = []
    for relation, f in shown:
        if any(_matches(at, relation, f) for at in changes.excluded):
            continue
        name = changes.renamed.get(f.name.lower(), f.name)
        replacement = changes.replaced.get(f.name.lower())
        if replacement is not None:
            items.append((name, context.translated(scope.resolve(replacement), scope.fields)))
        elif f.id in context.unread_times:
            context.warn_of_process_time(item, f.name)
        elif relation not in scope.relations:
            read = exp.Column(this=exp.to_identifier(f.name, quoted=True), table=item.args["table"].copy())
            read.meta.update(item.meta)
            items.append((name, scope.resolve(read)))
        else:
            items.append((name, column(f.id)))
    return items


def _around(context: BindContext, item: exp.Column) -> list[Relation]:
    """The table of the outer rows of a sub-query that `t.*` means, the innermost first."""
    found = (rows.scope.named(item.table) for rows in reversed(context.outer))
    return next((named for named in found if named), [])


def _fields_of_struct(context: BindContext, item: exp.Expr, scope: Scope) -> dict[str, exp.Expr] | None:
    """The fields of a struct for `s.*`; None where it is a table's."""
    if not isinstance(item, exp.Column) or not item.table:
        return None
    if scope.named(item.table) or _around(context, item):
        return None
    struct = exp.Column(this=item.args["table"].copy())
    struct.meta.update(item.meta)
    found = scope.find(struct)
    type_ = context.type_of(found, scope.fields).type if found is not None else None
    if found is None or type_ is None or type_.kind is not Kind.STRUCT:
        return None
    return {
        name: exp.Dot(this=found.copy(), expression=exp.to_identifier(name, quoted=True))
        for name, _ in type_.fields
    }


def _changed_fields(
    context: BindContext, star: exp.Star, fields: dict[str, exp.Expr], scope: Scope
) -> list[tuple[str, exp.Expr]]:
    """The fields of a struct with what EXCLUDE, REPLACE and RENAME say of them."""
    # As if they were the columns of a table.
    shown = [(Relation(None, ()), Field(name, name, UNKNOWN)) for name in fields]
    changes = _Changes.read(context, star, shown)
    items = []
    for (relation, f), value in zip(shown, fields.values(), strict=True):
        if any(_matches(at, relation, f) for at in changes.excluded):
            continue
        replacement = changes.replaced.get(f.name.lower())
        if replacement is not None:
            value = context.translated(scope.resolve(replacement), scope.fields)
        items.append((changes.renamed.get(f.name.lower(), f.name), value))
    return items


def chosen_by(context: BindContext, item: exp.Expr, scope: Scope) -> list[tuple[str, exp.Expr]]:
    """The columns that a star inside COLUMNS stands for, as the user could write them: names and expressions."""
    star = star_of(item)
    assert star is not None
    shown = _shown(context, item, scope)
    changes = _Changes.read(context, star, shown)
    found = []
    for relation, f in shown:
        if any(_matches(at, relation, f) for at in changes.excluded) or f.id in context.process_times:
            continue
        own = any(f.id == each.id for each in relation.fields)
        table = exp.to_identifier(relation.alias, quoted=True) if own and relation.alias else None
        made: exp.Expr = exp.Column(this=exp.to_identifier(f.name, quoted=True), table=table)
        made.meta.update(item.meta)
        replacement = changes.replaced.get(f.name.lower())
        found.append(
            (
                changes.renamed.get(f.name.lower(), f.name),
                made if replacement is None else exp.paren(replacement.copy(), copy=False),
            )
        )
    return found


def _shown(context: BindContext, item: exp.Expr, scope: Scope) -> list[tuple[Relation, Field]]:
    """The columns that a star without more gives, with what they are of."""
    if not isinstance(item, exp.Column) or not item.table:
        return [(r, f) for r in scope.relations if not r.hidden for f in r.bare]
    named = scope.named(item.table) or _around(context, item)
    if not named:
        known = ", ".join(f"`{r.alias}`" for r in scope.relations if r.alias)
        struct = next(
            (
                f.type
                for f in scope.fields
                if f.name.lower() == item.table.lower() and f.type.kind is Kind.STRUCT
            ),
            None,
        )
        context.fail(
            item,
            "SQL013",
            f"unknown table `{item.table}`",
            notes=(f"in FROM: {known or 'nothing with a name'}",),
            help=None
            if struct is None
            else "name the fields: " + ", ".join(f"{item.table}.{n}" for n, _ in struct.fields[:3]),
        )
    return [(r, f) for r in named if not r.hidden for f in r.fields]


@dataclass(frozen=True, slots=True)
class _Changes:
    """What stands behind a star: names are lower-case."""

    excluded: Sequence[exp.Expr] = ()
    replaced: dict[str, exp.Expr] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, context: BindContext, star: exp.Star, shown: Sequence[tuple[Relation, Field]]) -> _Changes:
        excluded = star.args.get("except_") or star.args.get("except") or []
        replaced = star.args.get("replace") or []
        renamed = star.args.get("rename") or []
        named = [(e, "EXCLUDE", e) for e in excluded]
        named += [(exp.column(e.args["alias"].copy()), "REPLACE", e.args["alias"]) for e in replaced]
        named += [(e.this, "RENAME", e.this) for e in renamed]
        seen: dict[str, str] = {}
        for wanted, clause, at in named:
            if not any(_matches(wanted, relation, f) for relation, f in shown):
                _refuse_unknown(context, wanted, clause, at, shown)
            name = wanted.sql().lower()
            if name in seen:
                places = f"twice in {clause}" if seen[name] == clause else f"in {seen[name]} and in {clause}"
                context.fail(at, "SQL039", f"`{_name(wanted)}` stands {places} behind *")
            seen[name] = clause
        return cls(
            excluded,
            {e.alias.lower(): e.this for e in replaced},
            {e.this.name.lower(): e.alias for e in renamed},
        )


def _matches(wanted: exp.Expr, relation: Relation, f: Field) -> bool:
    """Whether a name, perhaps with a table's before it, means a column of a relation."""
    table = wanted.table if isinstance(wanted, exp.Column) else ""
    if table and (relation.alias is None or relation.alias.lower() != table.lower()):
        return False
    return f.name.lower() == wanted.name.lower()


def _name(wanted: exp.Expr) -> str:
    parts = wanted.parts if isinstance(wanted, exp.Column) else [wanted]
    return ".".join(p.name for p in parts)


def _refuse_unknown(
    context: BindContext,
    wanted: exp.Expr,
    clause: str,
    at: exp.Expr,
    shown: Sequence[tuple[Relation, Field]],
) -> None:
    names = list(dict.fromkeys(f.name for _, f in shown))
    near = did_you_mean(wanted.name, names)
    context.fail(
        at,
        "SQL010",
        f"unknown column `{_name(wanted)}` in {clause}",
        notes=(f"* has the columns {', '.join(f'`{n}`' for n in names[:30])}",),
        help=f"did you mean `{near}`?" if near is not None and near.lower() != wanted.name.lower() else None,
    )
