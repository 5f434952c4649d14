"""The whole pipeline as DuckDB batch SQL over all of the input: the referee of what the runtime gives.

Made from the relational algebra, before any rule, and with DuckDB's own aggregate functions instead of accumulators,
so that what is judged (rules, partial aggregates, slices, state) takes no part in the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.large_stack import on_large_stack
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.batch.sources import Files, Header, source_view
from sqlstream_planner.logical import Scan, walk
from sqlstream_planner.pipeline import Planned


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


@on_large_stack
def to_duckdb(planned: Planned, files: Files | None = None, header: Header | None = None) -> DuckDBScript:
    """The pipeline as batch SQL.

    `files` lists a source's files (for a generated source: Parquet files with its columns); by default the
    text names the path of the table's options. Raises DiagnosticError where a metadata column has no
    counterpart in DuckDB.
    """
    read = {n.source.name: n.source for n in walk(planned.algebra) if isinstance(n, Scan)}
    sources = tuple((name, source_view(planned.catalog, spec, files, header)) for name, spec in read.items())
    return DuckDBScript(sources, tuple((root.sink.name, query_of(root)) for root in planned.algebra))
