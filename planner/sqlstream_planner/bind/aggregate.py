"""SELECT with GROUP BY or aggregate functions: an Aggregate with a projection above it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_planner.bind.aggregate_calls import AggregateCalls, aggregate_calls, is_aggregate_call
from sqlstream_planner.bind.aggregate_output import AggregateOutput, counts_copies
from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.group_by import GroupBy, read_group_by
from sqlstream_planner.bind.group_window import with_group_window, without_auxiliary
from sqlstream_planner.bind.items import expand_items, project
from sqlstream_planner.bind.outer_calls import OuterCall
from sqlstream_planner.bind.over_calls import function_of
from sqlstream_planner.bind.over_names import windows_of
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.select_unnest import with_unnested
from sqlstream_planner.bind.subqueries import BoundSubquery
from sqlstream_planner.bind.window_keys import WindowKeys, window_keys
from sqlstream_planner.logical import (
    Aggregate,
    Emission,
    Field,
    Filter,
    Node,
    Project,
    column,
    raw,
    union_all,
)
from sqlstream_planner.sql.as_written import without_marks

#: What no column is called, before a name of the SELECT list.
_OF_LIST = "\0"


def is_aggregate_query(query: exp.Select) -> bool:
    """Whether a SELECT has GROUP BY, HAVING, or an aggregate function outside sub-queries that is not an OVER itself."""
    if query.args.get("group") is not None or query.args.get("having") is not None:
        return True
    return any(
        aggregate_calls(part)
        for item in query.expressions
        for part in (item, *(inside for window in windows_of(item) for inside in _read_by(window)))
    )


def _read_by(window: exp.Window) -> Iterator[exp.Expr]:
    """What the function of an OVER and its window are made of: SUM(COUNT(*)) OVER (ORDER BY MAX(x)) is over a group."""
    yield from function_of(window).iter_expressions()
    yield from (part for part in window.iter_expressions() if part is not window.this)


def bind_aggregate(
    context: BindContext,
    query: exp.Select,
    node: Node,
    scope: Scope,
    values: Sequence[BoundSubquery] = (),
    outer_calls: Sequence[OuterCall] = (),
) -> Node:
    """The node of a SELECT that aggregates. Raises DiagnosticError.

    `values` are sub-queries of the SELECT list and HAVING, whose columns are in scope: each is of a group; `outer_calls`
    the aggregates that these read.
    """
    group_window, node, scope = with_group_window(context, query, node, scope)
    items = _items(context, query, scope, group_window)
    having = query.args.get("having")
    condition = None
    group = query.args.get("group")
    if having is not None:
        written = without_auxiliary(context, having.this, group_window)
        named = Scope(context, scope.relations, {name.lower(): e for name, e in items})
        condition = context.translated(named.resolve(written), scope.fields)
    windowed = group_window is not None
    group_by = read_group_by(context, group, items, scope, having=condition, windowed=windowed)
    if having is not None and not (group is not None and group.args.get("all")):
        written = _with_names(written, named, group_by)
        listed = {_OF_LIST + name: e for name, e in named.aliases.items()}
        named = Scope(context, scope.relations, {**named.aliases, **listed})
        condition = context.translated(named.resolve(written), scope.fields)
    window = window_keys(context, query, node, group_by)
    bounds = window.positions if window is not None else ()
    # Bounds of the window come first and are in every set, so that they add nothing to the grouping id.
    positions = [*bounds, *(i for i in range(len(group_by.keys)) if i not in bounds)]
    node, expressions = with_unnested(context, node, [group_by.keys[i] for i in positions])
    keys = tuple(_key_field(context, e, scope, node, window) for e in expressions)
    renumber = {old: new for new, old in enumerate(positions)}
    sets = tuple(
        tuple(dict.fromkeys((*range(len(bounds)), *(renumber[i] for i in chosen))))
        for chosen in group_by.sets
    )
    copies = Counter(tuple(sorted(chosen)) for chosen in sets)
    first = {tuple(sorted(chosen)): chosen for chosen in reversed(sets)}
    sets = tuple(first[each] for each in copies)
    grouping = None
    if group_by.several:
        grouping = Field(context.new_id("grouping_id"), "grouping_id", BIGINT, False)
        keys = tuple(k if n < len(bounds) else replace(k, nullable=True) for n, k in enumerate(keys))
    asking = any(map(counts_copies, [*(e for _, e in items), *([having.this] if having is not None else [])]))
    several_times = asking and any(times > 1 for times in copies.values())
    copy = Field(context.new_id("group_id"), "group_id", BIGINT, False) if several_times else None
    calls = AggregateCalls(context, scope.fields, node)
    outputs = {group_by.forms[i]: k for i, k in zip(positions, keys, strict=True)}
    for i, k in zip(positions, keys, strict=True):
        # Inside of another translated call stands what it became, without a mark of what it was.
        outputs.setdefault(group_by.form_of(without_marks(group_by.keys[i])), k)
    of_groups = frozenset(v.result.id for v in values)
    output = AggregateOutput(context, node, group_by, window, outputs, grouping, copy, calls, of_groups)
    rewritten = [(name, output.rewritten(e)) for name, e in items]
    if condition is not None:
        condition = output.rewritten(condition)
    called = {c.field.id: c.call for c in outer_calls}

    def of_group(written: exp.Expr) -> exp.Expr:
        made = output.rewritten(called.get(written.name, written))
        if isinstance(written, exp.Column) and not isinstance(made, exp.Column):
            context.unsupported(
                written,
                "a name of what is computed of groups, in a sub-query,",
                help="compute it in a sub-query in FROM, and read it as a column",
            )
        return made

    over_groups = [v.over(of_group) for v in values]
    if not keys and not calls.all:
        calls.add(exp.Anonymous(this="count", expressions=[exp.Star()]))  # GROUP BY (): one row all the same
    clauses = context.clauses
    aggregate: Node = Aggregate(
        calls.rows,
        keys,
        tuple(expressions),
        sets,
        grouping,
        calls.all,
        Emission(clauses.changes, clauses.lateness_us),
        clauses.ttl_us if keys and window is None else None,
        context.span(query.args.get("group") or query),
    )
    if window is not None:
        aggregate = window.with_derived(aggregate)
    if grouping is not None:
        aggregate = _repeated(context, aggregate, grouping, len(keys), copies, copy)
    for value in over_groups:
        aggregate = value.beside(aggregate)
    if having is not None and condition is not None:
        context.condition(condition, aggregate.fields, "HAVING")
        aggregate = Filter(aggregate, condition, context.span(having.this))
    aggregate, shown = with_unnested(context, aggregate, [e for _, e in rewritten])
    return project(context, aggregate, [(name, e) for (name, _), e in zip(rewritten, shown, strict=True)])


def _repeated(
    context: BindContext,
    aggregate: Node,
    grouping: Field,
    number_of_keys: int,
    copies: Mapping[tuple[int, ...], int],
    copy: Field | None,
) -> Node:
    """The groups with those of a grouping set that is written n times n times; `copies`: how often each set is.

    `copy`, if there is one, becomes the number of each, from 0 on.
    """
    more: list[tuple[int, Node]] = []
    for chosen, times in copies.items():
        if times == 1:
            continue
        left_out = sum(1 << (number_of_keys - 1 - n) for n in range(number_of_keys) if n not in chosen)
        of_set = raw(f"{quote_identifier(grouping.id)} = {left_out}")
        more += [(number, Filter(aggregate, of_set)) for number in range(1, times)]
    if not more:
        return aggregate
    given = (*aggregate.fields, *([copy] if copy is not None else []))
    fields = tuple(fresh(f, context) for f in given)
    # Each branch is a reference of its own to the groups.
    branches = []
    for number, each in ((0, aggregate), *more):
        own = tuple(fresh(f, context) for f in given)
        numbered = [] if copy is None else [exp.cast(exp.Literal.number(number), "BIGINT")]
        branches.append(Project(each, own, (*(column(f.id) for f in each.fields), *numbered)))
    return Project(union_all(branches, fields), given, tuple(column(f.id) for f in fields))


def _items(
    context: BindContext, query: exp.Select, scope: Scope, group_window: exp.Expr | None
) -> list[tuple[str, exp.Expr]]:
    """The SELECT list, resolved, with TUMBLE_START and kin as columns."""
    query = query.copy()
    query.set("expressions", [without_auxiliary(context, e, group_window) for e in query.expressions])
    return expand_items(context, query, scope)


def _with_names(condition: exp.Expr, scope: Scope, group_by: GroupBy) -> exp.Expr:
    """A condition of HAVING in which a column that is no key is what the SELECT list calls so, as in DuckDB.

    `SUM(v) AS v … HAVING v > 0` is about the sum; in `HAVING MAX(v) > 0` it is the column.
    """

    def visit(node: exp.Expr) -> None:
        if is_aggregate_call(node) or isinstance(node, exp.Query):
            return
        if not isinstance(node, exp.Column) or node.table or isinstance(node.this, exp.Star):
            for child in list(node.iter_expressions()):
                visit(child)
            return
        name = node.name.lower()
        found = scope.find(node) if name in scope.aliases else None
        if found is not None and group_by.form_of(found) not in group_by.forms:
            item = exp.column(exp.to_identifier(_OF_LIST + name, quoted=True))
            item.meta.update(node.meta)
            node.replace(item)

    around = exp.Paren(this=condition.copy())
    visit(around.this)
    made: exp.Expr = around.this
    return made


def _key_field(
    context: BindContext, expression: exp.Expr, scope: Scope, node: Node, window: WindowKeys | None
) -> Field:
    """The column of the result with a key."""
    f = scope.by_id(expression.name) if isinstance(expression, exp.Column) else None
    if f is not None:
        if window is None:
            return Field(context.new_id(f.name), f.name, f.type, f.nullable)
        if f.window is not None:
            return window.key(f)
        time = f.time if f.time is not None and not f.time.direct else None
        return Field(context.new_id(f.name), f.name, f.type, f.nullable, time)
    typed = context.type_of(expression, node.fields)
    found = expression.find(exp.Column)
    name = found.name if found is not None else "key"
    return Field(context.new_id(name), name, typed.type, typed.nullable)
