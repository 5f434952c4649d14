"""The `blackhole` sink: rows are computed and counted, and kept nowhere."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream_operators.duck.row_kinds import count_changes
from sqlstream_operators.plan.spec import SinkSpec


class Blackhole:
    """Both halves of the sink, and its factory."""

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Count the rows, or how often they are inserted or retracted."""
        return SinkPart(count_changes(table))

    @property
    def may_be_committed_often(self) -> bool:
        """Nothing is kept."""
        return True

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Nothing can fail."""

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Nothing is to be made visible."""

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Nothing was staged."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Blackhole:
        """The driver's half."""
        return self

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> Blackhole:
        """The task's half."""
        return self
