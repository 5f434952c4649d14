"""Both halves of the filesystem source and sink, as the registry wants them.

What reads and writes files is imported with the first that does: a plan of an edit only lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, Position
from sqlstream.connectors.filesystem.feedback import feeds_on
from sqlstream.connectors.filesystem.source import FileSource, continues
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec

if TYPE_CHECKING:
    from sqlstream.connectors.filesystem.reader import FileReader
    from sqlstream.connectors.filesystem.sink import FileSink, FileWriter
    from sqlstream_planner.catalog.options import OptionValue


class FileSourceFactory:
    """Files as a source."""

    def place_of(self, position: Position) -> str:
        """The file and the place in it; how much of the list of files there is says nothing to people. See `Placing`."""
        return f"file {position['file']:,}, offset {position['offset']:,}"

    def source(self, spec: SourceSpec, context: ConnectorContext) -> FileSource:
        """The driver's half."""
        return FileSource(spec, context)

    def continues(
        self,
        was: Mapping[str, OptionValue],
        now: Mapping[str, OptionValue],
        position: Position,
        context: ConnectorContext,
        *,
        closed: bool,
    ) -> bool:
        """Whether the path means the same files; see `Continuing`."""
        return continues(was, now, position, context)

    def feeds_on(self, source: SourceSpec, sink: SinkSpec, base_dir: str) -> str | None:
        """Whether the files of a sink are among those that are listed; see `Feeding`."""
        return feeds_on(source, sink, base_dir)

    def reader(self, spec: SourceSpec, base_dir: str) -> FileReader:
        """The task's half."""
        from sqlstream.connectors.filesystem.reader import FileReader

        return FileReader(spec, base_dir)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> FileReader:
        """The task's half for whole rows; the columns that `spec` does not read are taken as they are, as text."""
        from sqlstream.connectors.filesystem.columns import unread_as_text
        from sqlstream.connectors.filesystem.reader import FileReader

        return FileReader(unread_as_text(spec), base_dir)


class FileSinkFactory:
    """Files as a sink."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> FileSink:
        """The driver's half."""
        from sqlstream.connectors.filesystem.sink import FileSink

        return FileSink(spec, context)

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> FileWriter:
        """The task's half."""
        from sqlstream.connectors.filesystem.sink import FileWriter

        return FileWriter(spec, context.base_dir)
