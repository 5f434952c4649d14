"""Planning with the connectors that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlstream.connectors.catalogs import CATALOG_TYPES
from sqlstream.connectors.registry import REGISTERED, Registry
from sqlstream.type_oracle.installed import TYPES
from sqlstream_planner import pipeline
from sqlstream_planner.bind.script import Bound
from sqlstream_planner.catalog.foreign.descriptor import Catalogs
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span
from sqlstream_planner.expressions import oracle
from sqlstream_planner.expressions.constants import Constant
from sqlstream_planner.sql.parse import Script
from sqlstream_planner.sql.problems import BAD_CAST, FAILING_CONSTANT


def plan_file(
    source: Path | str,
    *,
    file: str | None = None,
    variables: Mapping[str, Any] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
    search_path: Sequence[Path] = (),
    registry: Registry = REGISTERED,
    moved: Mapping[str, str] = MappingProxyType({}),
    catalogs: Catalogs | None = None,
) -> pipeline.Planned:
    """`sqlstream_planner.pipeline.plan_file` over the tables of `registry`; constants that can't be computed are refused.

    Catalogs that the file creates are asked for the tables that it names, unless others are given in their place. Their
    paths are relative to the folder of the file.
    """
    oracle.use(TYPES)
    if catalogs is None:
        folder = source.parent if isinstance(source, Path) else Path(file or "").parent
        catalogs = CATALOG_TYPES.catalogs(str(folder))
    planned = pipeline.plan_file(
        source,
        connectors=registry.descriptors,
        file=file,
        variables=variables,
        env=env,
        search_path=search_path,
        moved=moved,
        catalogs=catalogs,
    )
    _refuse_wrong(planned.constants)
    return planned


def plan_script(script: Script, base_dir: Path, registry: Registry = REGISTERED) -> pipeline.Planned:
    """`plan_file` for statements that are parsed already, of a file in `base_dir`."""
    oracle.use(TYPES)
    catalogs = CATALOG_TYPES.catalogs(str(base_dir))
    planned = pipeline.plan_script(script, connectors=registry.descriptors, catalogs=catalogs)
    _refuse_wrong(planned.constants)
    return planned


def bind_query(script: Script, catalog: Catalog) -> Bound:
    """The algebra of the SELECTs of `script` over the tables of a catalog; constants that can't be computed are refused."""
    oracle.use(TYPES)
    bound = pipeline.bind_query(script, catalog)
    _refuse_wrong(bound.constants)
    return bound


def _refuse_wrong(constants: Mapping[Constant, Span]) -> None:
    """Try constants in DuckDB, before there is a row: casts, patterns, time zones and calls that must fail.

    Raises DiagnosticError (TYP007 for casts, TYP012) with every one that DuckDB can't compute, at its place.
    """
    if not constants:
        return
    whys = TYPES.failures([c.sql for c in constants])
    wrong = [(c, at, why) for (c, at), why in zip(constants.items(), whys, strict=True) if why is not None]
    # What is written once may stand in its translation twice.
    found = {at: _diagnostic(constant, at, why) for constant, at, why in reversed(wrong)}
    if found:
        raise DiagnosticError(*reversed(found.values()))


def _diagnostic(constant: Constant, at: Span, why: str) -> Diagnostic:
    if constant.cast:
        return Diagnostic(BAD_CAST, f"this cast fails: {why}", at, help=constant.instead)
    return Diagnostic(FAILING_CONSTANT, f"this expression fails with every row: {why}", at)


def with_functions() -> None:
    """Let the planner know the functions that there are, before anything is planned."""
    oracle.use(TYPES)
