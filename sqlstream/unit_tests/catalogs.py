"""Catalogs of a pipeline that is tested: its tables are asked for with the options that a run would have.

Rows are given by the test, and nothing is read of them, but what columns a table has only its store says. So the CREATE
CATALOG is rendered with the environment, of which the rest of the text sees nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sqlstream.connectors.catalogs import CATALOG_TYPES
from sqlstream_planner.catalog.foreign.declared import declared_catalogs
from sqlstream_planner.catalog.foreign.descriptor import CatalogDef, CatalogReader, Catalogs
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.sql.parse import parse_file


def with_environment(
    sql: str,
    file: Path,
    variables: Mapping[str, Any],
    env: Mapping[str, str],
    search_path: Sequence[Path],
) -> Catalogs:
    """What is asked for the tables of catalogs; `env` is what the text is rendered with, the environment goes before it."""
    types = CATALOG_TYPES.catalogs(str(file.parent))

    @cache
    def as_run() -> Mapping[str, CatalogDef]:
        try:
            script = parse_file(
                sql,
                file=str(file),
                variables=variables,
                env={**env, **os.environ},
                search_path=search_path,
            )
        except DiagnosticError:
            return {}  # what is wrong is reported of the text as it is tested
        return declared_catalogs(script.statements, types, []).found

    def opened(catalog: CatalogDef) -> CatalogReader:
        return types.open(as_run().get(catalog.name.lower(), catalog))

    return Catalogs(types.descriptors, opened, types.elsewhere)
