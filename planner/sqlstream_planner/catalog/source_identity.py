"""Which rows a source table gives and what its columns mean, as plain data; `identity/source.py` says how they are found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlstream_planner.catalog.options import OptionValue
from sqlstream_planner.diagnostics import InternalError

#: Of the form of identities. Another form needs another version, or state would be given away by accident.
VERSION = 1


@dataclass(frozen=True, slots=True)
class ColumnIdentity:
    """What a stored column means within its source; `called` is the user's name of it and no part of the meaning.

    `name`, `position` (from 0, among the columns that are in the data), `metadata` or `partition`: how it is found;
    None where that does not count.
    """

    called: str
    type: str
    name: str | None = None
    position: int | None = None
    metadata: str | None = None
    partition: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data, without what does not count."""
        found = {
            "name": self.name,
            "position": self.position,
            "metadata": self.metadata,
            "partition": self.partition,
            "type": self.type,
        }
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """Which rows a source gives, and what its columns mean.

    `options` are those that can change the rows and are not at their default, by key, with values as read: µs, bytes,
    a choice as it is spelled in the descriptor. They and the connector decide what a *position* in the source means.
    What else decides the rows: `partitioned_by`, the `primary_key` of a changelog, and `shape`, the names of
    the columns (their number, where the data has no names) if these decide which rows are well-formed.
    """

    connector: str
    options: tuple[tuple[str, OptionValue], ...]
    columns: tuple[ColumnIdentity, ...]
    shape: tuple[str, ...] | int | None = None
    partitioned_by: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    version: int = VERSION

    @property
    def positions(self) -> dict[str, Any]:
        """What decides positions: which data it is."""
        return {"version": self.version, "connector": self.connector, "options": dict(self.options)}

    @property
    def rows(self) -> dict[str, Any]:
        """What decides which rows there are, whatever is read of them."""
        found: dict[str, Any] = dict(self.positions)
        if self.shape is not None:
            found["shape"] = list(self.shape) if isinstance(self.shape, tuple) else self.shape
        if self.partitioned_by:
            found["partitioned_by"] = list(self.partitioned_by)
        if self.primary_key:
            found["primary_key"] = list(self.primary_key)
        return found

    @property
    def text(self) -> str:
        """What decides positions, as compact JSON that is the same for the same meaning."""
        return compact(self.positions)

    def known_as(self, moved: Mapping[str, str]) -> SourceIdentity:
        """The identity under which state knows this data: `moved` has texts of identities by those that are declared.

        "" stands for data that is elsewhere now: what is still declared there is another source.

        >>> here = SourceIdentity("files", (("path", "new"),), ())
        >>> old = SourceIdentity("files", (("path", "old"),), ())
        >>> here.known_as({here.text: old.text, old.text: ""}) == old
        True
        >>> old.known_as({here.text: old.text, old.text: ""}).text
        '{"connector":"files","options":{"moved away":true,"path":"old"},"version":1}'
        """
        if self.text not in moved:
            return self
        kept = moved[self.text]
        options = json.loads(kept)["options"] if kept else {**dict(self.options), "moved away": True}
        return replace(self, options=tuple(sorted(options.items())))

    def column(self, name: str) -> dict[str, Any]:
        """What the column that the table calls `name` (ignoring case) means. Raises InternalError if it is not stored."""
        for found in self.columns:
            if found.called.lower() == name.lower():
                return {"source": self.rows, **found.to_json()}
        raise InternalError(f"{name!r} is no stored column of the source")

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain JSON data."""
        return {**self.rows, "columns": [c.to_json() for c in self.columns]}


def compact(data: Mapping[str, Any]) -> str:
    """JSON in one line, keys sorted.

    >>> compact({"b": 1, "a": [True]})
    '{"a":[true],"b":1}'
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
