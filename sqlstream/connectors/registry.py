"""The connectors by the name that `'connector' = '…'` gives them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.connectors.api import SinkFactory, SourceFactory
from sqlstream.connectors.blackhole import Blackhole
from sqlstream.connectors.database.factory import DuckSinkFactory, PostgresSinkFactory
from sqlstream.connectors.datagen import DatagenFactory
from sqlstream.connectors.filesystem.factory import FileSinkFactory, FileSourceFactory
from sqlstream.connectors.nexmark import NexmarkFactory
from sqlstream.connectors.print_sink import PrintSinkFactory

SOURCES: Mapping[str, SourceFactory] = {
    "filesystem": FileSourceFactory(),
    "datagen": DatagenFactory(),
    "nexmark": NexmarkFactory(),
}

SINKS: Mapping[str, SinkFactory] = {
    "filesystem": FileSinkFactory(),
    "print": PrintSinkFactory(),
    "blackhole": Blackhole(),
    "duckdb": DuckSinkFactory(),
    "postgres": PostgresSinkFactory(),
}
