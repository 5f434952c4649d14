"""What the format `raw` is, to the planner."""

from __future__ import annotations

from sqlstream.formats.raw.columns import WIDTHS
from sqlstream_operators.plan.types import Kind
from sqlstream_planner.catalog.descriptor import ColumnLookup, FormatDescriptor
from sqlstream_planner.catalog.options import OptionDef, ValueKind

RAW = FormatDescriptor(
    "raw",
    options=(
        OptionDef("raw.charset", ValueKind.STRING, "how texts are encoded", default="UTF-8"),
        OptionDef(
            "raw.endianness",
            ValueKind.ENUM,
            "which byte of a number comes first",
            default="big-endian",
            choices=("big-endian", "little-endian"),
        ),
    ),
    lookup=lambda settings: ColumnLookup(by_name=False, alone=True),
    not_written=frozenset(Kind) - {*WIDTHS, Kind.VARCHAR, Kind.BLOB},
)
