"""SELECT (SELECT MAX(b.x) FROM b WHERE b.k = a.k) FROM a  ->  a LEFT JOIN (the maxima by k) ON a.k = k."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.diagnostics import refuse
from sqlstream_planner.logical import Apply, Field, JoinKind, Node, Project, Values, column, substitute
from sqlstream_planner.rules.decorrelate.one_row import gives_one_row, gives_one_row_at_most
from sqlstream_planner.rules.decorrelate.pull_up import Pulled, pull_up
from sqlstream_planner.rules.decorrelate.push_down import PushDown
from sqlstream_planner.rules.decorrelate.single_row import can_be_counted, counted, only_value
from sqlstream_planner.rules.decorrelate.subquery import Subquery, Types


def scalar_value(apply: Apply, types: Types) -> Node:
    """The rows with the value of a sub-query beside each: NULL where it gives no row.

    What it compares with the outer rows becomes the key of the join, and a key of its groups. Over no rows an aggregate
    has a value all the same (COUNT: 0), which rows without a partner get. A sub-query that may give several rows for one row
    around it stops the run when it does, as in DuckDB.
    """
    inlined = _written_out(apply)
    if inlined is not None:
        return inlined
    if not gives_one_row_at_most(apply.query):
        if not can_be_counted(apply):
            refuse(
                apply.at,
                "SQL056",
                "a sub-query that stands for a value may give more than one row, and its value has no type",
                help="CAST it, such as CAST(NULL AS INT), or take one row: ORDER BY … LIMIT 1",
            )
        return only_value(apply, scalar_value(counted(apply), types))
    subquery = Subquery.of(apply, types)
    id_ = subquery.query.fields[0].id
    pulled = pull_up(subquery, subquery.query)
    if pulled is None:
        return _for_every_value(subquery, id_)
    right, ids = shown(subquery, pulled, [id_])
    if not subquery.outer:
        kind = JoinKind.INNER if gives_one_row(apply.query) else JoinKind.LEFT
        return subquery.beside(subquery.join(kind, apply.input, right, ()), column(ids[id_]))
    terms = compared(subquery, pulled, ids)
    value: exp.Expr = column(ids[id_])
    if pulled.empty is not None and not _is_null(pulled.empty[id_]):
        partner = column(ids[pulled.compared[0]])
        value = exp.Case(
            ifs=[exp.If(this=exp.Is(this=partner, expression=exp.Null()), true=pulled.empty[id_])],
            default=value,
        )
    return subquery.beside(subquery.join(JoinKind.LEFT, apply.input, right, terms), value)


def shown(subquery: Subquery, pulled: Pulled, ids: list[str]) -> tuple[Project, dict[str, str]]:
    """What is compared and the columns `ids` of a query, under ids of their own, by those that they had."""
    given = {f.id: f for f in pulled.node.fields}
    read = [
        *pulled.compared,
        *(c.name for e in pulled.rest for c in e.find_all(exp.Column) if c.name in given),
    ]
    wanted = list(dict.fromkeys([*read, *ids]))
    fields: list[Field] = [subquery.same_as("of_query", given[id_]) for id_ in wanted]
    if not wanted:
        wanted, fields = [pulled.node.fields[0].id], [subquery.like("of_query", pulled.node.fields[0])]
    project = Project(pulled.node, tuple(fields), tuple(column(id_) for id_ in wanted))
    return project, dict(zip(wanted, (f.id for f in fields), strict=True))


def compared(subquery: Subquery, pulled: Pulled, ids: dict[str, str]) -> list[exp.Expr]:
    """The conditions that were pulled out of a query, between the outer rows and columns that `ids` names."""
    renamed = {old: column(new) for old, new in ids.items()}
    equal = [exp.EQ(this=subquery.around(e).copy(), expression=column(ids[id_])) for e, id_ in pulled.equal]
    return [*equal, *(subquery.around(substitute(e, renamed)) for e in pulled.rest)]


def _for_every_value(subquery: Subquery, id_: str) -> Node:
    push = PushDown(subquery)
    pushed = push.rows(subquery.query)
    right, ids = shown(subquery, Pulled(pushed.node), [id_, *pushed.columns.values()])
    terms = push.same({name: ids[old] for name, old in pushed.columns.items()})
    join = subquery.join(JoinKind.LEFT, subquery.apply.input, right, terms)
    return subquery.beside(join, column(ids[id_]))


def _written_out(apply: Apply) -> Node | None:
    """A sub-query of one row that is written out, as one without FROM: an expression over the outer rows."""
    query = apply.query
    if not isinstance(query, Project) or not isinstance(query.input, Values):
        return None
    if len(query.input.rows) != 1:
        return None
    written = {f.id: e for f, e in zip(query.input.fields, query.input.rows[0], strict=True)}
    rows = apply.input
    fields = apply.fields
    return Project(rows, fields, (*(column(f.id) for f in fields[:-1]), substitute(query.items[0], written)))


def _is_null(expression: exp.Expr) -> bool:
    bare = expression.unnest()
    return isinstance(bare, exp.Null) or (isinstance(bare, exp.Cast) and isinstance(bare.this, exp.Null))
