"""Files of Parquet to the referee, and those that it is given as Parquet."""

from __future__ import annotations

from sqlstream.formats.referee import BatchRead, Referee, always, never


def _reader(read: BatchRead) -> str:
    return f"read_parquet({read.listed}, union_by_name = true{read.more})"


REFEREE = Referee(_reader, always, typed=True, ending=".parquet")
#: DuckDB has no reader for these, and is given the rows as Parquet.
GIVEN = Referee(_reader, never, typed=True, ending=".parquet")
