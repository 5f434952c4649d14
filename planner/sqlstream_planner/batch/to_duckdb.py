"""The whole pipeline as DuckDB batch SQL over all of the input: the referee of what the runtime gives.

Made from the plan as the user wrote it, before any rule, and with DuckDB's own aggregate functions instead
of accumulators, so that what is judged (partial aggregates, slices, state) takes no part in the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import TIMESTAMPTZ, Kind, SqlType, quote_identifier, quote_literal
from sqlstream_planner.aggregates.batch import in_any_order, in_order_of_arrival
from sqlstream_planner.batch.batch_changelog import changelog_view, normalized, remaining
from sqlstream_planner.bind.sinks import CHANGELOG_FORMATS
from sqlstream_planner.block import Block, compose
from sqlstream_planner.catalog.options import find_option
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
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

#: The files of a source, in the order in which the runtime reads them.
Files = Callable[[SourceSpec], Sequence[str]]
#: Whether the CSV files of a source begin with a header line; None lets DuckDB find out.
Header = Callable[[SourceSpec], bool | None]


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
                sources[name] = _view(planned, node.source, files, header)
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


# ------------------------------------------------------------------------------------------------ sources


def _view(planned: Planned, spec: SourceSpec, files: Files | None, header: Header | None) -> str:
    name = quote_identifier(spec.name)
    paths = list(files(spec)) if files is not None else [_default_path(spec)]
    listed = "[" + ", ".join(quote_literal(p) for p in paths) + "]"
    generated = spec.connector != "filesystem"
    format_ = "parquet" if generated else spec.options.get("format", "")
    if not generated and format_ == "orc":
        format_ = "parquet"
    if format_ in CHANGELOG_FORMATS:
        return f"CREATE OR REPLACE VIEW {name} AS\n{changelog_view(spec, listed)}"
    typed = format_ == "parquet"
    reader = _reader(spec, format_, listed, header)
    items = [_item(c.name, c.type, typed=typed) for c in spec.physical]
    items += [_metadata(planned, spec, m.name, m.key, m.type) for m in spec.metadata]
    note = f"-- {spec.connector}: rows as the generator makes them, as Parquet\n" if generated else ""
    body = ",\n  ".join(items)
    return f"{note}CREATE OR REPLACE VIEW {name} AS\nSELECT\n  {body}\nFROM {reader}"


def _item(name: str, type_: SqlType, *, typed: bool) -> str:
    quoted = quote_identifier(name)
    if type_.kind is Kind.TIMESTAMP and not typed:
        return f"{quoted} AT TIME ZONE 'UTC' AS {quoted}"  # read with its zone offset, if it has one
    return f"CAST({quoted} AS {type_}) AS {quoted}"


def _reader(spec: SourceSpec, format_: str, listed: str, header: Header | None) -> str:
    name_column = ", filename = true" if spec.metadata else ""
    if format_ == "parquet":
        return f"read_parquet({listed}, union_by_name = true{name_column})"
    types = {
        c.name: "TIMESTAMP WITH TIME ZONE" if c.type.kind is Kind.TIMESTAMP else str(c.type)
        for c in spec.physical
    }
    columns = "{" + ", ".join(f"{quote_literal(n)}: {quote_literal(t)}" for n, t in types.items()) + "}"
    if format_ == "json":
        return f"read_json({listed}, format = 'newline_delimited', columns = {columns}, ignore_errors = true{name_column})"
    options = _csv_options(spec, header)
    return f"read_csv({listed}, columns = {columns}, ignore_errors = true{options}{name_column})"


def _csv_options(spec: SourceSpec, header: Header | None) -> str:
    from sqlstream_planner.catalog.connector_options import CONNECTORS

    known = CONNECTORS["filesystem"].options

    def text(key: str) -> str | None:
        option = find_option(known, key)
        return spec.options.get(key, option.default if option is not None else None)

    first = header(spec) if header is not None else None
    if spec.options.get("csv.header") in ("true", "false"):
        first = spec.options["csv.header"] == "true"
    parts = [f", header = {'true' if first else 'false'}"] if first is not None else []
    parts.append(f", delim = {quote_literal(text('csv.field-delimiter') or ',')}")
    quote = "" if text("csv.disable-quote-character") == "true" else text("csv.quote-character") or '"'
    parts.append(f", quote = {quote_literal(quote)}")
    if text("csv.escape-character"):
        parts.append(f", escape = {quote_literal(text('csv.escape-character') or '')}")
    parts.append(", allow_quoted_nulls = false")
    if text("csv.null-literal") is not None:
        parts.append(f", nullstr = {quote_literal(text('csv.null-literal') or '')}")
    if text("csv.allow-comments") == "true":
        parts.append(", comment = '#'")
    return "".join(parts)


def _metadata(planned: Planned, spec: SourceSpec, name: str, key: str, type_: SqlType) -> str:
    expressions = {"file.path": "filename", "file.name": "parse_filename(filename)"}
    if key not in expressions:
        table = planned.catalog.table(spec.name)
        raise DiagnosticError(
            Diagnostic(
                "GLD001",
                f"`{name}` of `{spec.name}` is {key}, which the batch SQL for DuckDB has no way to give",
                table.span if table is not None else None,
                help="leave the column out of pipelines that are checked against a golden",
            )
        )
    return f"CAST({expressions[key]} AS {type_}) AS {quote_identifier(name)}"


def _default_path(spec: SourceSpec) -> str:
    path = spec.options.get("path")
    if path is None:
        return f"{spec.name}.parquet"
    last = path.rstrip("/").rpartition("/")[2]
    return path if "." in last or "*" in last else f"{path.rstrip('/')}/*"
