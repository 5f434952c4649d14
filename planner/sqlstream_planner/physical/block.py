"""Composes stateless logical nodes into flat DuckDB SELECTs, one block for each stage that rows come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream_operators.plan.epoch_values import (
    ARRIVAL_RELATION,
    ARRIVAL_SQL,
    CLOCK_SQL,
    EPOCH_RELATION,
    place_sql,
    random_sql,
)
from sqlstream_operators.plan.schema import KIND_COLUMN, WEIGHT_COLUMN
from sqlstream_operators.plan.types import Kind, quote_identifier
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.expressions.unnests import long_series
from sqlstream_planner.logical import (
    EpochKind,
    EpochValues,
    Fields,
    Filter,
    JoinKind,
    LookupJoin,
    Node,
    Project,
    SetOperation,
    Unnest,
    Values,
    Versions,
    WindowFunction,
    column,
    raw,
    sql,
    substitute,
)
from sqlstream_planner.sql.as_written import without_marks
from sqlstream_planner.sql.datatypes import as_type
from sqlstream_planner.windows import window_time as window_sql

#: An expression is not inlined into its consumers beyond this many nodes: a sub-select keeps SQL small.
INLINE_LIMIT = 400

#: The hidden column that carries a whole source row as JSON, for dead letters.
ROW_COLUMN = "__row"
#: The hidden column that says which row of the source it is, among those of the task.
NUMBER_COLUMN = "__row_number"
#: The hidden column with the event time that a row came to its windows with, for dead letters.
TIME_COLUMN = "__event_time"
#: Columns that no query names: they go along with the rows through projections and unions.
HIDDEN = (ROW_COLUMN, NUMBER_COLUMN, TIME_COLUMN, WEIGHT_COLUMN)

#: The stage of a block whose rows are at hand in every one.
ANY_STAGE = ""


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT without grouping: `FROM source WHERE …`, and what each column id is in terms of it.

    `stage` says where the rows are (a stage's id, or anything else that the caller distinguishes); `reads` are
    the relations that `source` names. `multiplied`: a row there may be several rows of the block.
    """

    stage: str
    source: str
    reads: tuple[str, ...]
    columns: dict[str, exp.Expr]
    where: tuple[exp.Expr, ...] = field(default=())
    multiplied: bool = False

    def select(self, items: Sequence[tuple[str, str]], *, group_by: str | None = None) -> str:
        """The block as SQL with `items`: (SQL expression, output name)."""
        listed = ",\n  ".join(f"{text} AS {quote_identifier(name)}" for text, name in items)
        conditions = " AND ".join(_operand(w) for w in self.where)
        text = f"SELECT\n  {listed}\nFROM {self.source}"
        if conditions:
            text += f"\nWHERE {conditions}"
        if group_by is not None:
            text += f"\nGROUP BY {group_by}"
        return text

    def nested(self, keep: Sequence[str], extra: Sequence[tuple[str, str]] = ()) -> Block:
        """This block as a sub-select that gives the columns `keep` (and `extra`) under their ids."""
        items = [(sql(self.columns[id_]), id_) for id_ in keep] + list(extra)
        names = [*keep, *(name for _, name in extra)]
        inner = self.select(items or [("1", "__one")])
        indented = inner.replace("\n", "\n  ")
        return replace(
            self, source=f"(\n  {indented}\n) AS t", columns={name: column(name) for name in names}, where=()
        )

    def expression(self, expression: exp.Expr) -> exp.Expr:
        """An expression over column ids, in terms of this block's source."""
        return substitute(without_marks(expression), self.columns)


def _operand(predicate: exp.Expr) -> str:
    text = sql(predicate)
    return f"({text})" if isinstance(predicate, exp.Or | exp.Connector) else text


def stateless(node: Node, inputs: Sequence[list[Block]], *, timeless: bool = False) -> list[Block]:
    """The blocks whose rows together are those of a stateless node, from the blocks of its inputs.

    With `timeless`, rows without an event time go along through windows, in a window whose bounds are NULL.
    """
    match node:
        case Project():
            return [_project(b, node) for b in inputs[0]]
        case Filter():
            return [replace(b, where=(*b.where, b.expression(node.predicate))) for b in inputs[0]]
        case WindowFunction():
            return [_window(b, node, timeless=timeless) for b in inputs[0]]
        case Unnest():
            return [_unnest(b, node) for b in inputs[0]]
        case EpochValues():
            return [_given_by_epoch(b, node) for b in inputs[0]]
        case LookupJoin():
            return [_looked_up(b, inputs[1][0], node) for b in inputs[0]]
        case Versions():
            return [_versions(b, node) for b in inputs[0]]
        case SetOperation() if node.is_union_all:
            return [
                b
                for branch, blocks in zip(node.branches, inputs, strict=True)
                for b in _renamed(blocks, branch.fields, node.fields)
            ]
    raise InternalError(f"{type(node).__name__} is not stateless")


def with_rows(block: Block, row: exp.Expr) -> Block:
    """The block with what dead letters contain of its rows: `row`, a row of its source as JSON, and its number there."""
    return replace(with_numbers(block), columns={**with_numbers(block).columns, ROW_COLUMN: row})


def with_numbers(block: Block) -> Block:
    """The block of a source with the numbers of its rows there."""
    number = quote_identifier(NUMBER_COLUMN)
    return replace(
        block,
        source=f"(SELECT *, row_number() OVER () AS {number} FROM {block.source}) AS t",
        columns={**block.columns, NUMBER_COLUMN: column(NUMBER_COLUMN)},
    )


def hidden(block: Block) -> dict[str, exp.Expr]:
    """The hidden columns that a block has."""
    return {name: block.columns[name] for name in HIDDEN if name in block.columns}


def weight(block: Block) -> exp.Expr:
    """How many times each row of a block comes or goes: 1 where the block is append-only."""
    return block.columns[WEIGHT_COLUMN] if WEIGHT_COLUMN in block.columns else exp.Literal.number(1)


def _renamed(blocks: list[Block], old: Fields, new: Fields) -> list[Block]:
    renamed = []
    for block in blocks:
        columns: dict[str, exp.Expr] = {}
        for o, n in zip(old, new, strict=True):
            inner = block.columns[o.id]
            if o.type != n.type and n.type.kind not in (Kind.UNKNOWN, Kind.NULL):
                inner = as_type(inner, n.type)
            columns[n.id] = inner
        columns.update(hidden(block))
        renamed.append(replace(block, columns=columns))
    return renamed


def _size(expression: exp.Expr) -> int:
    return sum(1 for _ in expression.walk())


def _project(block: Block, node: Project) -> Block:
    uses: dict[str, int] = {}
    for expression in node.items:
        for c in without_marks(expression).find_all(exp.Column):
            uses[c.name] = uses.get(c.name, 0) + 1
    if any(n * _size(block.columns[id_]) > INLINE_LIMIT for id_, n in uses.items()):
        block = block.nested([*uses, *hidden(block)])
    columns = {f.id: block.expression(e) for f, e in zip(node.fields, node.items, strict=True)}
    columns.update(hidden(block))
    return replace(block, columns=columns)


def _window(block: Block, node: WindowFunction, *, timeless: bool) -> Block:
    us = f"epoch_us({sql(block.columns[node.time_column])})"
    ends = window_sql.window_ends(node.window, us)
    gap = window_sql.in_some_window(node.window, us)
    if timeless:
        ends = f"CASE WHEN {us} IS NULL THEN [NULL] ELSE {ends} END"
        gap = f"coalesce({gap}, TRUE)" if gap is not None else None
    else:
        present = exp.Not(this=exp.Is(this=block.columns[node.time_column].copy(), expression=exp.Null()))
        block = replace(block, where=(*block.where, present))
    if gap is not None:
        block = replace(block, where=(*block.where, raw(gap)))
    if ROW_COLUMN in block.columns and TIME_COLUMN not in block.columns:
        block = replace(block, columns={**block.columns, TIME_COLUMN: block.columns[node.time_column]})
    end_name = f"{node.end.id}.us"
    inner = block.nested(list(block.columns), [(f"unnest({ends})", end_name)])
    end = quote_identifier(end_name)
    kept = {**inner.columns}
    del kept[end_name]
    kept[node.start.id] = raw(f"make_timestamp({window_sql.start_of(node.window, end)})")
    kept[node.end.id] = raw(f"make_timestamp({end})")
    maker = "make_timestamptz" if node.time.type.kind is Kind.TIMESTAMPTZ else "make_timestamp"
    kept[node.time.id] = raw(f"{maker}({end} - 1000)")
    return replace(inner, columns=kept, multiplied=True)


def _given_by_epoch(block: Block, node: EpochValues) -> Block:
    columns, reads = dict(block.columns), list(block.reads)
    if node.numbers_rows and NUMBER_COLUMN not in block.columns:
        raise InternalError("rows without a number of their own can't be given values by it")
    for value in node.values:
        match value.kind:
            case EpochKind.CLOCK:
                text = CLOCK_SQL
            case EpochKind.RANDOM:
                text = random_sql(sql(block.columns[NUMBER_COLUMN]), value.call)
            case EpochKind.ARRIVAL:
                text = ARRIVAL_SQL
            case EpochKind.PLACE:
                text = place_sql(sql(block.columns[NUMBER_COLUMN]))
        columns[value.field.id] = raw(text)
        reads.append(ARRIVAL_RELATION if value.kind.is_repeatable else EPOCH_RELATION)
    return replace(block, reads=tuple(dict.fromkeys(reads)), columns=columns)


def _unnest(block: Block, node: Unnest) -> Block:
    series = long_series(node.array) if node.is_one_column and isinstance(node.input, Values) else None
    if series is not None:  # as a list it would be one value, all of it in memory
        rows, (element_field,) = block.nested(list(block.columns)), node.element
        name = quote_identifier(element_field.id)
        return replace(
            rows,
            source=f"{rows.source}\nCROSS JOIN {series} AS series({name})",
            columns={**rows.columns, element_field.id: column(element_field.id)},
            multiplied=True,
        )
    array = sql(block.expression(node.array))
    parts = [(array, element := f"{node.element[0].id}.element")]
    if node.ordinality is not None:
        parts.append((f"range(1, len({array}) + 1)", node.ordinality.id))
    if node.outer:
        # A row without elements is kept, once, with neither an element nor a number.
        parts = [(f"CASE WHEN len({array}) > 0 THEN {text} ELSE [NULL] END", id_) for text, id_ in parts]
    else:
        block = replace(block, where=(*block.where, raw(f"len({array}) > 0")))
    extra = [(f"unnest({text})", id_) for text, id_ in parts]
    inner = block.nested(list(block.columns), extra)
    columns = {**inner.columns}
    del columns[element]
    quoted = quote_identifier(element)
    for f in node.element:
        columns[f.id] = raw(f"({quoted}).{quote_identifier(f.name)}") if node.spread else raw(quoted)
    return replace(inner, columns=columns, multiplied=True)


def _looked_up(block: Block, table: Block, node: LookupJoin) -> Block:
    """The rows beside those of a table that are there in every stage."""
    left = block.nested(list(block.columns))
    right = table.nested([f.id for f in node.right.fields])
    columns = {**left.columns, **right.columns}
    kind = "LEFT JOIN" if node.kind is JoinKind.LEFT else "JOIN"
    condition = sql(substitute(without_marks(node.condition), columns))
    return Block(
        block.stage,
        f"{left.source}\n{kind} {right.source.removesuffix('AS t')}AS d ON {condition}",
        (*block.reads, *(name for name in table.reads if name not in block.reads)),
        columns,
        multiplied=True,
    )


def _versions(block: Block, node: Versions) -> Block:
    """What came of a table, in its order; of one that is read as changes also what went, as append-only rows."""
    if node.gone is None:
        return block
    columns = {name: e for name, e in block.columns.items() if name not in (WEIGHT_COLUMN, KIND_COLUMN)}
    kind = sql(block.columns[KIND_COLUMN])
    columns[node.gone.id] = raw(f"({kind} = '-D')")
    return replace(block, columns=columns, where=(*block.where, raw(f"{kind} <> '-U'")))
