"""What changes the rows of a table, or what is published of them, without a word in the log.

ALTER TABLE and ALTER TYPE may give all rows other values at once, and the log describes the table just as before. So a
position has what the catalog said when it was made, and that is compared with what the catalog says now.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlstream.connectors.postgres_cdc.options import CdcOptions
from sqlstream.connectors.postgres_cdc.server import CdcServer
from sqlstream_operators.state.checkpoint_store import CheckpointStore

_FLOAT4, _FLOAT8, _VARCHAR = 700, 701, 1043


@dataclass(frozen=True, slots=True)
class Column:
    """A declared column: its number in the table, the transaction that last altered it, its type with that's parameter.

    `labels` are those of an enum, in the order in which they were made.
    """

    number: int
    altered: str
    type: tuple[int, int]
    labels: Sequence[str] = ()

    def to_json(self) -> list[Any]:
        """Plain JSON data; of labels how many there are, and a digest."""
        return [self.number, self.altered, *self.type, len(self.labels), _digest(self.labels)]


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the catalog says of a table: the file of its rows, its columns, and the entries that publish it."""

    file: int
    published: Sequence[Any]
    columns: Mapping[str, Column]

    def to_json(self) -> str:
        """As a position has it."""
        columns = {name: column.to_json() for name, column in sorted(self.columns.items())}
        return json.dumps([self.file, list(self.published), columns], separators=(",", ":"))

    def differs(self, noted: str, publication: str) -> str | None:
        """What has changed the rows since `noted` (`to_json`), in words; None: nothing, as far as can be told."""
        file, published, columns = json.loads(noted)
        for name, now in self.columns.items():
            if name not in columns:
                continue
            number, altered, type_, parameter, labels, digest = columns[name]
            if number != now.number:
                return f"its column `{name}` is another one: it was added, or renamed, in place of the former one"
            written_anew = file != self.file and altered != now.altered
            if written_anew and _is_changed((type_, parameter), now.type):
                return f"all values of its column `{name}` were written anew (ALTER COLUMN … TYPE)"
            if digest != _digest(now.labels[:labels]):
                return f"values of its column `{name}` were renamed (ALTER TYPE … RENAME VALUE)"
        if published != list(self.published):
            return f"the publication `{publication}` was altered: it may have left out changes meanwhile"
        return None


def _is_changed(former: tuple[int, int], now: tuple[int, int]) -> bool:
    """Whether values that were written anew by ALTER COLUMN are taken for others: by USING, or rounded.

    PostgreSQL writes none anew if neither the type nor its parameter change, unless there is a USING.
    """
    if former == now:
        return True
    return (former[0] == now[0] and now[0] != _VARCHAR) or (former[0], now[0]) == (_FLOAT8, _FLOAT4)


def _digest(labels: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(labels)).encode()).hexdigest()[:16] if labels else ""


def look(server: CdcServer, options: CdcOptions, columns: Sequence[str]) -> Catalog | None:
    """What the catalog says now of a table and its declared columns; None: there are none of them.

    Raises DiagnosticError (ENV006).
    """
    rows = server.run(
        "SELECT a.attname::text, a.attnum::int, a.xmin::text, a.atttypid::bigint, a.atttypmod, "
        "ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid IN (t.oid, t.typbasetype) ORDER BY e.oid), "
        "c.relfilenode::bigint, p.oid::bigint, p.xmin::text, r.oid::bigint, r.xmin::text "
        "FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid "
        "LEFT JOIN pg_publication p ON p.pubname = %s "
        "LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid "
        "WHERE c.oid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attname::text = ANY(%s)",
        [options.publication, server.table, list(columns)],
    )
    if not rows:
        return None
    found = {row[0]: Column(row[1], row[2], (row[3], row[4]), tuple(row[5])) for row in rows}
    return Catalog(rows[0][6], rows[0][7:], found)


class Looks:
    """What the catalog said at the last look since a position noted it (`noted`, as `Catalog.to_json`).

    It is in the state directory, which is read once: nobody else writes it while a run has its lease.
    """

    def __init__(self, store: CheckpointStore, folder: str) -> None:
        self._store, self._file = store, f"{folder}/catalog.json"
        self._last: tuple[str, str] | None = None

    def since(self, noted: str) -> str:
        """What it said last; what a position noted, if nobody has looked since."""
        if self._last is None:
            try:
                found = json.loads(self._store.get(self._file))
                self._last = str(found["noted"]), str(found["now"])
            except FileNotFoundError:
                self._last = "", ""
        return self._last[1] if self._last[0] == noted else noted

    def note(self, noted: str, now: Catalog) -> None:
        """Write down what the catalog says now, if that is news: it has changed no row."""
        found = now.to_json()
        if found != self.since(noted):
            self._store.put(self._file, json.dumps({"noted": noted, "now": found}).encode())
            self._last = noted, found
