"""What the format `parquet` is, to the planner."""

from __future__ import annotations

from sqlstream.formats.shared_options import by_name
from sqlstream_operators.plan.types import Kind
from sqlstream_planner.catalog.descriptor import FormatDescriptor
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

PARQUET = FormatDescriptor(
    "parquet",
    options=(
        OptionDef(
            "parquet.compression",
            ValueKind.ENUM,
            "how files are compressed",
            default="snappy",
            choices=("uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"),
            roles=(Role.SINK,),
            changes_output=False,
        ),
        OptionDef(
            "parquet.utc-timezone",
            ValueKind.BOOLEAN,
            "times are UTC; nothing else can be read or written",
            default="true",
            refuse=lambda text: "'true': times are UTC" if text.strip().lower() == "false" else None,
        ),
    ),
    lookup=by_name,
    not_written=frozenset({Kind.INTERVAL}),  # pyarrow has no Parquet type for it
)
