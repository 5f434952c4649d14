"""From a file to its plans: the planner's entry point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlglot.errors import UnsupportedError

from sqlstream_operators.large_stack import on_large_stack
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.plan.state_schema import UntypedFieldError
from sqlstream_planner.bind.script import Bound, bind_script
from sqlstream_planner.catalog.descriptor import Connectors
from sqlstream_planner.catalog.foreign.descriptor import NO_CATALOGS, Catalogs
from sqlstream_planner.catalog.foreign.resolve import resolve
from sqlstream_planner.catalog.masked_sql import masked_sql
from sqlstream_planner.catalog.script import Declarations, declared
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import (
    SUPPORTED,
    Diagnostic,
    DiagnosticError,
    Span,
    Written,
    nested_too_deeply,
)
from sqlstream_planner.expressions.constants import Constant
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.identity.sink import sink_identity
from sqlstream_planner.logical import Sink
from sqlstream_planner.logical.column_names import column_names
from sqlstream_planner.logical.written_expressions import place_of_sql
from sqlstream_planner.physical.plan import plan_with_states
from sqlstream_planner.physical.state_node import StateNodes
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules import ALIKE, SETTLE, optimize
from sqlstream_planner.sql.parse import Script, parse_file
from sqlstream_planner.sql.problems import UNSUPPORTED_EXPRESSION, UNTYPED_HELP
from sqlstream_planner.sql.rendered import RenderedSql


@dataclass(frozen=True, slots=True)
class Planned:
    """Everything that is known about a file before it runs.

    `algebra` is what the file means (the referee's SQL is made of it), `logical` the streaming plan, `physical` what
    runs, and `state_nodes` what each of its states is made of. `constants` are parts of its expressions that can be tried
    without a row.
    """

    rendered: RenderedSql
    catalog: Catalog
    algebra: tuple[Sink, ...]
    logical: tuple[Sink, ...]
    physical: PhysicalPlan
    warnings: tuple[Diagnostic, ...]
    state_nodes: StateNodes
    constants: Mapping[Constant, Span]

    @property
    def secrets(self) -> Secrets:
        """What the references in the plan stand for; to be given to a run, and to nobody else."""
        return self.catalog.secrets

    @property
    def written(self) -> Mapping[str, Written]:
        """Where each sink stands in the file."""
        tables = {root.sink.name: self.catalog.table(root.sink.name) for root in self.algebra}
        spans = {name: None if table is None else table.span for name, table in tables.items()}
        return {root.sink.name: Written(root.at, spans[root.sink.name]) for root in self.algebra}

    @on_large_stack
    def place_of(self, text: str) -> Span | None:
        """Where the expression stands in the file with which generated SQL begins, if that is known."""
        return place_of_sql(text, self.logical, self.rendered) or place_of_sql(
            text, self.algebra, self.rendered
        )

    @property
    def masked_sql(self) -> str:
        """The SQL that was planned, after templating, without passwords: what may be kept beside the plan."""
        return masked_sql(self.rendered.text, self.catalog)


@on_large_stack
def plan_file(
    source: Path | str,
    *,
    connectors: Connectors,
    file: str | None = None,
    variables: Mapping[str, Any] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
    search_path: Sequence[Path] = (),
    moved: Mapping[str, str] = MappingProxyType({}),
    catalogs: Catalogs = NO_CATALOGS,
) -> Planned:
    """Plan a file (a Path), or text given as a str under the name `file`, whose tables are on `connectors`.

    `catalogs` are asked for the tables of those that the file creates.
    `moved` says which sources a state knows under another identity, as their data was elsewhere (`Catalog.moved`).
    Raises DiagnosticError with everything that is wrong with the file.
    """
    script = parse_file(source, file=file, variables=variables, env=env, search_path=search_path)
    return plan_script(script, connectors=connectors, moved=moved, catalogs=catalogs)


@on_large_stack
def plan_script(
    script: Script,
    *,
    connectors: Connectors,
    moved: Mapping[str, str] = MappingProxyType({}),
    catalogs: Catalogs = NO_CATALOGS,
) -> Planned:
    """Plan statements that are parsed already; see `plan_file`."""
    script, foreign = resolve(script, catalogs)
    found = declared(script, connectors, foreign)
    if found.errors:
        raise DiagnosticError(*found.errors, *_further(script, found))
    catalog = replace(found.catalog, moved=moved)
    bound = bind_script(script, catalog)
    try:
        algebra = optimize(bound.roots, SETTLE)
        facts = Facts()
        logical = optimize(algebra, facts=facts)
        laid_out, state_nodes = plan_with_states(logical, facts, bound.options)
        physical = replace(
            _with_sink_identities(laid_out, optimize(algebra, ALIKE), logical),
            names=column_names((*bound.roots, *logical)),
        )
    except UnsupportedError as error:
        raise DiagnosticError(
            Diagnostic(
                "SQL100",
                f"DuckDB can't run the query: {error}",
                Span(script.rendered.file, 1, 1),
                (),
                SUPPORTED,
            )
        ) from error
    except RecursionError:
        raise DiagnosticError(nested_too_deeply(Span(script.rendered.file, 1, 1))) from None
    except UntypedFieldError as error:
        raise DiagnosticError(
            Diagnostic(
                UNSUPPORTED_EXPRESSION,
                f"the type of `{error.name}` is not known, so it can't be kept in state",
                help=UNTYPED_HELP,
            )
        ) from error
    return Planned(
        script.rendered, catalog, algebra, logical, physical, bound.warnings, state_nodes, bound.constants
    )


@on_large_stack
def bind_query(script: Script, catalog: Catalog) -> Bound:
    """The algebra of the SELECTs of `script` over the tables of a catalog, before any rule. Raises DiagnosticError."""
    try:
        return bind_script(script, catalog)
    except RecursionError:
        raise DiagnosticError(nested_too_deeply(Span(script.rendered.file, 1, 1))) from None


def _further(script: Script, found: Declarations) -> list[Diagnostic]:
    """What is wrong with the queries of a file whose declarations have mistakes, as far as these leave it to be seen."""
    errors = found.errors
    try:
        bind_script(script, found.for_checks())
    except DiagnosticError as error:
        # That nothing is written may follow from the others; OPT006 says what SQL016 would.
        implied = {"SQL050"} | ({"SQL016"} if any(d.code == "OPT006" for d in errors) else set())
        return [d for d in error.diagnostics if d not in errors and d.code not in implied]
    return []


def _with_sink_identities(
    physical: PhysicalPlan, algebra: Sequence[Sink], logical: Sequence[Sink]
) -> PhysicalPlan:
    """The plan with the identity of each sink's content."""
    meanings = Meanings()
    held = {
        plan.sink.name: sink_identity(meant, plan, meanings).text
        for meant, plan in zip(algebra, logical, strict=True)
    }
    return replace(physical, sinks=tuple(replace(sink, identity=held[sink.name]) for sink in physical.sinks))
