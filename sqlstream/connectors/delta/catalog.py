"""A folder of Delta tables, as a catalog."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlstream.connectors.catalog_reading import away, location_of
from sqlstream.connectors.delta.catalog_descriptor import DEFAULT
from sqlstream.connectors.delta.source.columns import type_of
from sqlstream.connectors.delta.source.log import DeltaLog
from sqlstream.connectors.filesystem.paths import (
    open_filesystem,
    resolve,
    split_location,
    without_credentials,
)
from sqlstream_operators.errors import DataError
from sqlstream_operators.state.places import below
from sqlstream_planner.catalog.foreign.descriptor import CatalogDef, FoundColumn, FoundTable

if TYPE_CHECKING:
    from pyarrow import fs

_LOG = "_delta_log"


class DeltaCatalog:
    """Tables in the folder itself are of the database `default`; folders of it that are no tables are databases."""

    def __init__(self, catalog: CatalogDef, base_dir: str) -> None:
        self._written = catalog.given["path"]
        self._folder = resolve(self._written, base_dir)
        place = without_credentials(split_location(self._folder)[0])[0]
        self._location = location_of(catalog.name, f"'{place}'")

    def databases(self) -> list[str]:
        """`default`, and the folders; see `CatalogReader`."""
        folders = self._folders("")
        tables = self._those_with_logs("", folders)
        return [DEFAULT, *(name for name in folders if name not in tables and name != DEFAULT)]

    def tables(self, database: str) -> list[str]:
        """The folders with a log in one; see `CatalogReader`."""
        inside = "" if database == DEFAULT else database
        return self._those_with_logs(inside, self._folders(inside))

    def describe(self, database: str, table: str) -> FoundTable | None:
        """See `CatalogReader`."""
        if any(not name.strip(".") or "/" in name or "?" in name for name in (database, table)):
            return None
        inside = table if database == DEFAULT else f"{database}/{table}"
        if not self._those_with_logs(inside.rpartition("/")[0], [table]):
            return None
        log = DeltaLog(below(self._folder, inside))
        there = log.now()
        if there is None:
            return None
        columns = tuple(
            FoundColumn(
                one["name"],
                type_of(one["type"]),
                bool(one.get("nullable", True)),
                one["type"] if isinstance(one["type"], str) else str(one["type"]["type"]),
            )
            for one in json.loads(there.shape.schema)["fields"]
        )
        return FoundTable(
            database,
            table,
            "delta",
            {"table-path": below(self._written, inside)},
            columns,
            partitioned_by=there.shape.partitioned_by,
        )

    def _folders(self, inside: str) -> list[str]:
        from pyarrow import fs

        filesystem, path = self._opened(inside)
        try:
            found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=bool(inside)))
        except FileNotFoundError:
            raise away(self._location, "there is no such folder") from None
        except OSError as error:
            raise away(self._location, str(error)) from None
        names = (info.base_name for info in found if info.type == fs.FileType.Directory)
        return sorted(name for name in names if not name.startswith((".", "_")))

    def _those_with_logs(self, inside: str, names: list[str]) -> list[str]:
        from pyarrow import fs

        filesystem, path = self._opened(inside)
        root = path.rstrip("/")
        try:
            found = filesystem.get_file_info([f"{root}/{name}/{_LOG}" for name in names])
        except OSError as error:
            raise away(self._location, str(error)) from None
        return [name for name, info in zip(names, found, strict=True) if info.type == fs.FileType.Directory]

    def _opened(self, inside: str) -> tuple[fs.FileSystem, str]:
        try:
            return open_filesystem(below(self._folder, inside) if inside else self._folder)
        except DataError as error:
            raise away(self._location, str(error)) from None
