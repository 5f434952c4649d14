"""The whole pipeline as DuckDB batch SQL over all of the input: the referee of what the runtime gives.

Made from the relational algebra, before any rule, and with DuckDB's own aggregate functions instead of accumulators,
so that what is judged (rules, partial aggregates, slices, state) takes no part in the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.large_stack import on_large_stack
from sqlstream_operators.plan.epoch_values import clock_settings
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.batch.sources import Files, Header, source_view
from sqlstream_planner.logical import EpochValues, Scan, Sink, walk
from sqlstream_planner.pipeline import Planned

#: The nesting depth that DuckDB takes by itself is 1,000; one step of ours may be several of its.
_DEEP = 150
# They hold for statements that are read behind them, as the shell does. To look for common parts takes DuckDB a time
# that is cubic in the depth.
_FOR_MANY = ("SET max_expression_depth = 50000", "SET disabled_optimizers = 'common_subexpressions'")


@dataclass(frozen=True, slots=True)
class DuckDBScript:
    """`sources`: (name, CREATE VIEW); `sinks`: (name, SELECT), in the file's order; `deep`: they nest deeply.

    `timed`: they read the clock, which stands still from the script's beginning on.
    """

    sources: tuple[tuple[str, str], ...]
    sinks: tuple[tuple[str, str], ...]
    deep: bool = False
    timed: bool = False

    @property
    def text(self) -> str:
        """Everything as one script."""
        settings = _FOR_MANY if self.deep else ()
        clock = (clock_settings(None),) if self.timed else ()
        statements = ["SET TimeZone = 'UTC'", *clock, *settings, *(s for _, s in self.sources)]
        statements += [f"CREATE OR REPLACE TABLE {quote_identifier(n)} AS\n{s}" for n, s in self.sinks]
        return ";\n\n".join(statements) + ";\n"


@on_large_stack
def to_duckdb(planned: Planned, files: Files | None = None, header: Header | None = None) -> DuckDBScript:
    """The pipeline as batch SQL.

    `files` lists a source's files (for a generated source: Parquet files with its columns); by default the
    text names the path of the table's options. Raises DiagnosticError where a metadata column has no
    counterpart in DuckDB.
    """
    read = {n.source.name: n.source for n in walk(planned.algebra) if isinstance(n, Scan)}
    sources = tuple((name, source_view(planned.catalog, spec, files, header)) for name, spec in read.items())
    sinks = tuple((root.sink.name, query_of(root)) for root in planned.algebra)
    timed = any(isinstance(n, EpochValues) and not n.is_repeatable for n in walk(planned.algebra))
    return DuckDBScript(sources, sinks, _is_deep(planned.algebra), timed)


def _is_deep(roots: Sequence[Sink]) -> bool:
    """Whether queries and expressions may nest deeper than DuckDB takes."""
    depths: dict[int, int] = {}
    for node in walk(roots):
        written = max((_levels(e) for e in node.expressions()), default=0)
        depths[id(node)] = 1 + max([written, *(depths[id(i)] for i in node.inputs)])
    return any(count > _DEEP for count in depths.values())


def _levels(expression: exp.Expr) -> int:
    count, rank = 0, [expression]
    while rank:
        count, rank = count + 1, [child for each in rank for child in each.iter_expressions()]
    return count
