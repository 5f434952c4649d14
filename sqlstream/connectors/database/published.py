"""A copy of a DuckDB file for readers, who would keep the run from the file itself: `sink.publish-path`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import duckdb

from sqlstream.connectors.database.declared import wrong_path
from sqlstream.connectors.database.duckdb_file import DuckFile
from sqlstream.connectors.exactly_once.target import unusable
from sqlstream.connectors.options import bad_option
from sqlstream_operators.plan.types import quote_identifier, quote_literal

PUBLISH = "sink.publish-path"


class PublishedCopy:
    """The copy at another path: whole, of what is committed, and replaced by renaming, so that readers need no lock."""

    def __init__(self, file: Path, copy: Path) -> None:
        self._file = file
        self._copy = copy

    @classmethod
    def of(cls, options: Mapping[str, str], file: Path, base_dir: str) -> PublishedCopy | None:
        """The copy that the options of a sink ask for. Raises DiagnosticError (OPT003) if it can't be at its path."""
        path = options.get(PUBLISH)
        if path is None:
            return None
        copy = Path(base_dir) / path.removeprefix("file://")
        wrong = wrong_path(path)
        if wrong is None and copy.absolute() == file.absolute():
            wrong = "another file than `path`"
        if wrong is not None:
            raise bad_option(PUBLISH, path, wrong)
        return cls(file, copy)

    def is_behind(self) -> bool:
        """Whether the file has been written since the copy was made, or there is none of it."""
        written = [_written(self._file), _written(self._file.with_name(f"{self._file.name}.wal"))]
        newest = max((at for at in written if at is not None), default=None)
        copied = _written(self._copy)
        return newest is not None and (copied is None or copied < newest)

    def publish(self) -> None:
        """Make the copy anew, of all that is committed. Raises DiagnosticError (ENV006) if that can't be done."""
        scratch = self._copy.with_name(f".{self._copy.name}.new")
        try:
            self._copy.parent.mkdir(parents=True, exist_ok=True)
            _remove(scratch)  # of a run that was killed meanwhile
            file = DuckFile(self._file)
            connection = file.open()
            try:
                # Sinks of one process share a DuckDB: another one may have such a copy attached.
                name = quote_identifier(f"sqlstream_copy_{uuid4().hex}")
                found = connection.execute("SELECT current_database()").fetchone()
                database = quote_identifier(str(found[0]) if found else "")
                connection.execute(f"ATTACH {quote_literal(str(scratch))} AS {name}")
                try:
                    connection.execute(f"COPY FROM DATABASE {database} TO {name}")
                finally:
                    connection.execute(f"DETACH {name}")
            finally:
                file.close()
            scratch.replace(self._copy)
        except (duckdb.Error, OSError) as error:
            raise unusable(
                f"the copy '{self._copy}' of '{self._file}'",
                str(error),
                "mend that and run again, which makes the copy; what it is a copy of is committed",
            ) from None
        finally:
            _remove(scratch)


def _remove(scratch: Path) -> None:
    for file in (scratch, scratch.with_name(f"{scratch.name}.wal")):
        with suppress(OSError):
            file.unlink()


def _written(file: Path) -> int | None:
    """When a file was written last (ns); None: it is not there."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None
