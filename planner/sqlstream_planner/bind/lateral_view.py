"""LATERAL VIEW of Spark and Hive: behind FROM, each row beside the elements of one of its arrays or maps.

https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select-lateral-view.html
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import INTEGER
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.unnest import bind_unnest
from sqlstream_planner.logical import Field, Node, Project, column
from sqlstream_planner.sql.dialect import function_name

_FUNCTIONS = ("EXPLODE", "POSEXPLODE", "INLINE")


def bind_lateral_view(
    context: BindContext, view: exp.Lateral, node: Node, scope: Scope
) -> tuple[Node, Scope]:
    """The rows of `node` beside what EXPLODE, POSEXPLODE or INLINE gives of each. Raises DiagnosticError."""
    name = (function_name(view.this) or "").upper()
    name, outer = name.removesuffix("_OUTER"), name.endswith("_OUTER") or bool(view.args.get("outer"))
    arguments = [e for e in (view.this.this, *view.this.expressions) if isinstance(e, exp.Expr)]
    alias = view.args.get("alias")
    names = list(alias.args.get("columns") or []) if alias is not None else []
    if name not in _FUNCTIONS or len(arguments) != 1:
        context.unsupported(
            view, f"LATERAL VIEW {name or 'of this'}", help="EXPLODE, POSEXPLODE and INLINE of one array can"
        )
    if len(names) < (1 if name == "EXPLODE" else 2):
        context.unsupported(
            view,
            f"LATERAL VIEW {name} without names for its columns",
            help=f"write LATERAL VIEW {name}(an_array) AS {'item' if name == 'EXPLODE' else 'first, second'}",
        )
    position = names.pop(0) if name == "POSEXPLODE" else None
    unnest = exp.Unnest(
        expressions=[arguments[0]],
        alias=exp.TableAlias(this=alias.this if alias is not None else None, columns=names),
        offset=exp.to_identifier(f"{position.name} of {names[0].name}") if position is not None else None,
    )
    unnest.meta.update(view.meta)
    join = exp.Join(this=unnest, side="LEFT" if outer else None, kind=None if outer else "CROSS")
    join.meta.update(view.meta)
    node, scope = bind_unnest(context, join, arguments[0], node, scope)
    return (node, scope) if position is None else _from_nought(context, position, node, scope)


def _from_nought(context: BindContext, position: exp.Expr, node: Node, scope: Scope) -> tuple[Node, Scope]:
    """The last relation with its ordinals, which count from 1, as a first column that counts from 0."""
    *others, made = scope.relations
    *elements, ordinal = made.fields
    first = Field(context.new_id(position.name), position.name, INTEGER, ordinal.nullable)
    number = exp.cast(column(ordinal.id) - 1, exp.DType.INT)
    kept = [f for f in node.fields if f.id != ordinal.id]
    rows = Project(node, (*kept, first), (*(column(f.id) for f in kept), number))
    return rows, replace(scope, relations=(*others, Relation(made.alias, (first, *elements))))
