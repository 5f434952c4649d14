"""A Delta table that is kept up to date by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlstream.connectors.delta.sink.sink import DeltaSink
from sqlstream_operators.plan.spec import SinkSpec
from tests.connectors.lakehouse.keyed import Driver as LakeDriver
from tests.connectors.lakehouse.keyed import columns_of


def spec_of(
    schema: Mapping[str, str],
    key: Sequence[str] = ("k",),
    *,
    partitions: Sequence[str] = (),
    changelog: str = "retract",
    path: str = "table",
    name: str = "o",
) -> SinkSpec:
    options = {"table-path": path}
    return SinkSpec(name, "delta", options, columns_of(schema), tuple(key), tuple(partitions), changelog)


@dataclass
class Driver(LakeDriver):
    """A driver of the sink."""

    @property
    def table(self) -> Path:
        return self.folder / self.spec.options["table-path"]

    @property
    def delta(self) -> DeltaSink:
        assert isinstance(self.sink, DeltaSink)
        return self.sink
