"""Planning with the connectors that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlstream.connectors.registry import REGISTERED, Registry
from sqlstream_planner import pipeline


def plan_file(
    source: Path | str,
    *,
    file: str | None = None,
    variables: Mapping[str, Any] = MappingProxyType({}),
    env: Mapping[str, str] = MappingProxyType({}),
    search_path: Sequence[Path] = (),
    registry: Registry = REGISTERED,
    moved: Mapping[str, str] = MappingProxyType({}),
) -> pipeline.Planned:
    """`sqlstream_planner.pipeline.plan_file` over the tables of `registry`."""
    return pipeline.plan_file(
        source,
        connectors=registry.descriptors,
        file=file,
        variables=variables,
        env=env,
        search_path=search_path,
        moved=moved,
    )
