"""The whole pipeline as DuckDB batch SQL over all of the input: the referee of what the runtime gives.

Made from the plan as the user wrote it, before any rule, and with DuckDB's own aggregate functions instead
of accumulators, so that what is judged (partial aggregates, slices, state) takes no part in the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.types import TIMESTAMPTZ, quote_identifier
from sqlstream_planner.aggregates.batch import in_any_order, in_order_of_arrival
from sqlstream_planner.batch.batch_changelog import normalized, remaining
from sqlstream_planner.batch.sources import Files, Header, source_view
from sqlstream_planner.block import Block, compose
from sqlstream_planner.logical import (
    GroupAggregate,
    KeepFirst,
    Node,
    Normalize,
    Scan,
    Sink,
    TopN,
    WindowAggregate,
    WindowGate,
    column,
    sql,
)
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.properties import changes
from sqlstream_planner.window_sql import start_of


@dataclass(frozen=True, slots=True)
class DuckDBScript:
    """`sources`: (name, CREATE VIEW); `sinks`: (name, SELECT), in the file's order."""

    sources: tuple[tuple[str, str], ...]
    sinks: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """Everything as one script."""
        statements = ["SET TimeZone = 'UTC'", *(s for _, s in self.sources)]
        statements += [f"CREATE OR REPLACE TABLE {quote_identifier(n)} AS\n{s}" for n, s in self.sinks]
        return ";\n\n".join(statements) + ";\n"


def to_duckdb(planned: Planned, files: Files | None = None, header: Header | None = None) -> DuckDBScript:
    """The pipeline as batch SQL.

    `files` lists a source's files (for a generated source: Parquet files with its columns); by default the
    text names the path of the table's options. Raises DiagnosticError where a metadata column has no
    counterpart in DuckDB.
    """
    sources: dict[str, str] = {}

    def leaf(node: Node) -> list[Block] | None:
        if isinstance(node, Scan):
            name = node.source.name
            if name not in sources:
                sources[name] = source_view(planned.catalog, node.source, files, header)
            read = Block(name, quote_identifier(name), (name,), {f.id: column(f.name) for f in node.fields})
            return [remaining(node, read) if node.changelog else read]
        match node:
            case WindowAggregate():
                return [_aggregate(node, compose(node.input, leaf))]
            case GroupAggregate():
                return [_group(node, compose(node.input, leaf))]
            case TopN():
                return [_top(node, compose(node.input, leaf))]
            case Normalize() if isinstance(node.input, Scan):
                leaf(node.input)
                name = node.input.source.name
                columns: dict[str, exp.Expr] = {f.id: column(f.name) for f in node.fields}
                return [normalized(node, Block(name, quote_identifier(name), (name,), columns))]
            case WindowGate():
                return compose(node.input, leaf)
            case KeepFirst():
                return [_kept(node.keys, compose(node.input, leaf), last=False)]
            case Normalize() if not changes(node.input):
                return [_kept(node.keys, compose(node.input, leaf), last=True)]
        return None

    sinks = []
    for root in planned.bound:
        blocks = compose(root.input, leaf)
        sinks.append((root.sink.name, "\nUNION ALL\n".join(_rows(root, b) for b in blocks)))
    return DuckDBScript(tuple(sources.items()), tuple(sinks))


def _rows(root: Sink, block: Block) -> str:
    pairs = zip(root.fields, root.sink.schema, strict=True)
    return block.select([(sql(block.columns[f.id]), c.name) for f, c in pairs])


# --------------------------------------------------------------------------------------------- aggregates


def _rows_of(blocks: list[Block]) -> tuple[Block, list[str]]:
    """All rows of some blocks as one block, and the ids of its columns."""
    used = list(dict.fromkeys(id_ for b in blocks for id_ in b.columns))
    everywhere = [id_ for id_ in used if all(id_ in b.columns for b in blocks)]
    texts = [b.select([(sql(b.columns[id_]), id_) for id_ in everywhere]) for b in blocks]
    source = _indented("\nUNION ALL\n".join(texts))
    return Block("batch", f"(\n{source}\n) AS rows", (), {id_: column(id_) for id_ in everywhere}), everywhere


def _aggregate(node: WindowAggregate, blocks: list[Block]) -> Block:
    rows, everywhere = _rows_of(blocks)
    end = f"epoch_us({sql(column(node.slice_column))})"
    keys = [
        (f"{f.id}.key", sql(rows.expression(e))) for f, e in zip(node.keys, node.key_expressions, strict=True)
    ]
    keyed = rows.nested(everywhere, [(end, "__end"), *((text, name) for name, text in keys)])
    keyed = replace(keyed, where=(exp.Not(this=exp.Is(this=column("__end"), expression=exp.Null())),))
    names = [quote_identifier(name) for name, _ in keys]
    quoted_end = quote_identifier("__end")
    start = start_of(node.window, quoted_end)
    items = [(quoted, f.id) for quoted, f in zip(names, node.keys, strict=True)]
    items.append((f"make_timestamp({start})", node.start.id))
    items.append(('make_timestamp("__end")', node.end.id))
    maker = "make_timestamptz" if node.window_time.type == TIMESTAMPTZ else "make_timestamp"
    items.append((f'{maker}("__end" - 1000)', node.window_time.id))
    if node.grouping is not None:
        items.append((f"grouping({', '.join(names)})" if names else "0", node.grouping.id))
    items += [(in_order_of_arrival(c), c.field.id) for c in node.calls]
    if node.grouping is None:
        group_by = ", ".join([quoted_end, *names])
    else:
        sets = [f"({', '.join([quoted_end, *(names[i] for i in s)])})" for s in node.sets]
        group_by = f"GROUPING SETS ({', '.join(sets)})"
    text = _indented(keyed.select(items, group_by=group_by))
    return Block("batch", f"(\n{text}\n) AS windows", (), {f.id: column(f.id) for f in node.fields})


def _group(node: GroupAggregate, blocks: list[Block]) -> Block:
    rows, everywhere = _rows_of(blocks)
    keys = [
        (f"{f.id}.key", sql(rows.expression(e))) for f, e in zip(node.keys, node.key_expressions, strict=True)
    ]
    keyed = rows.nested(everywhere, [(text, name) for name, text in keys])
    names = [quote_identifier(name) for name, _ in keys]
    items = [(quoted, f.id) for quoted, f in zip(names, node.keys, strict=True)]
    if node.grouping is not None:
        items.append((f"grouping({', '.join(names)})" if names else "0", node.grouping.id))
    items += [(f"CAST({in_any_order(c)} AS {c.field.type})", c.field.id) for c in node.calls]
    group_by = ", ".join(names) or None
    if node.grouping is not None:
        sets = [f"({', '.join(names[i] for i in s)})" for s in node.sets]
        group_by = f"GROUPING SETS ({', '.join(sets)})"
    text = _indented(keyed.select(items, group_by=group_by))
    return Block("batch", f"(\n{text}\n) AS groups", (), {f.id: column(f.id) for f in node.fields})


def _top(node: TopN, blocks: list[Block]) -> Block:
    rows, everywhere = _rows_of(blocks)
    order = [term.sql for term in node.order]
    if node.function == "row_number":
        order += [f"{quote_identifier(id_)} ASC NULLS FIRST" for id_ in node.ties or ()]
    by = ", ".join(quote_identifier(id_) for id_ in node.partition)
    over = f"{f'PARTITION BY {by} ' if by else ''}ORDER BY {', '.join(order)}"
    rank = node.rank.id if node.rank is not None else "__rank"
    text = rows.select(
        [(quote_identifier(id_), id_) for id_ in everywhere] + [(f"{node.function}() OVER ({over})", rank)]
    )
    within = f"{quote_identifier(rank)} BETWEEN {node.offset + 1} AND {node.offset + node.limit}"
    kept = f"SELECT * FROM (\n{_indented(text)}\n) AS ranked\nWHERE {within}"
    return Block(
        "batch", f"(\n{_indented(kept)}\n) AS top", (), {id_: column(id_) for id_ in [*everywhere, rank]}
    )


def _kept(keys: Sequence[str], blocks: list[Block], *, last: bool) -> Block:
    """The first or the last row of each key, in the order in which the rows stand in the files."""
    rows, everywhere = _rows_of(blocks)
    listed = ", ".join(quote_identifier(id_) for id_ in everywhere)
    numbered = f"SELECT {listed}, row_number() OVER () AS __place FROM {rows.source}"
    by = ", ".join(quote_identifier(id_) for id_ in keys)
    over = f"PARTITION BY {by} ORDER BY __place{' DESC' if last else ''}"
    kept = (
        f"SELECT {listed} FROM (\n{_indented(numbered)}\n) AS numbered QUALIFY row_number() OVER ({over}) = 1"
    )
    return Block("batch", f"(\n{_indented(kept)}\n) AS kept", (), {id_: column(id_) for id_ in everywhere})


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
