"""What the `filesystem` connector is, to the planner."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlstream.connectors.filesystem.formats import FORMATS
from sqlstream.connectors.filesystem.patterns import wrong_path_pattern
from sqlstream_operators.plan.types import BIGINT, TIMESTAMPTZ, VARCHAR
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, SinkAbilities, format_option
from sqlstream_planner.catalog.lookup_options import LOOKUP_OPTIONS, wrong_lookup
from sqlstream_planner.catalog.options import BOTH, OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_operators.plan.spec import SinkSpec, SourceSpec
    from sqlstream_planner.catalog.descriptor import BatchFiles

_SOURCE = (Role.SOURCE,)
_SINK = (Role.SINK,)
_D, _S, _I = ValueKind.DURATION, ValueKind.STRING, ValueKind.INTEGER


#: How large files of a sink become.
FILE_SIZE = OptionDef(
    "sink.rolling-policy.file-size",
    ValueKind.BYTES,
    "start another file beyond this size",
    default="128 mb",
    roles=_SINK,
    minimum=1,
    changes_output=False,
)

#: What METADATA columns say of a row's file.
FILES = MappingProxyType(
    {
        "file.path": VARCHAR,
        "file.name": VARCHAR,
        "file.size": BIGINT,
        "file.modification-time": TIMESTAMPTZ,
    }
)


def _ended_by_epoch(name: str, default: str) -> OptionDef:
    return OptionDef(
        name,
        _D,
        "accepted: files end with their epoch",
        default=default,
        roles=_SINK,
        changes_output=False,
    )


def _committed(
    name: str, kind: ValueKind, default: str | None = None, choices: tuple[str, ...] = ()
) -> OptionDef:
    return OptionDef(
        name,
        kind,
        "accepted: only committed files are visible",
        default=default,
        choices=choices,
        roles=_SINK,
        changes_output=False,
    )


def _batch(spec: SourceSpec, files: BatchFiles | None) -> str:
    """DuckDB's SQL, whose text is only loaded for the referee: `check` has no time for it."""
    from sqlstream.connectors.filesystem.batch import batch_select

    return batch_select(spec, files)


def without_columns(sink: SinkSpec) -> Diagnostic | None:
    """What is wrong with a table whose files would have no columns; None: they have some."""
    partitions = {name.lower() for name in sink.partitioned_by}
    if not partitions or any(column.name.lower() not in partitions for column in sink.schema):
        return None
    return Diagnostic(
        "CAT007",
        f"`{sink.name}` is PARTITIONED BY all of its columns, so nothing is left to be in its files",
        help="leave a column out of PARTITIONED BY",
    )


def wrong_sink(sink: SinkSpec) -> Diagnostic | None:
    """What is wrong with writing a table in its format and its folders; None: nothing is."""
    nothing = without_columns(sink)
    if nothing is not None:
        return nothing
    format_ = sink.options.get("format", "").strip().lower()
    partitions = {name.lower() for name in sink.partitioned_by}
    changes = next((f for f in FORMATS if f.name == format_ and f.changelog), None)
    if changes is None or sink.changelog != "retract" or sink.key is None:
        return None
    if partitions <= {name.lower() for name in sink.key}:
        return None
    return Diagnostic(
        "CAT007",
        f"an update of a row in `{sink.name}` could move it to another folder",
        notes=(
            f"it is PARTITIONED BY ({', '.join(sink.partitioned_by)}): the '{format_}' messages of a row would be in two "
            "folders, without an order",
        ),
        help=f"partition by columns of the key ({', '.join(sink.key)}), or not at all",
    )


DESCRIPTOR = ConnectorDescriptor(
    "filesystem",
    "files in a directory",
    BOTH,
    (
        OptionDef(
            "path",
            ValueKind.PATH,
            "a directory, a file or a glob, local or a URI",
            required=True,
            refuse=lambda text: None if text.strip() else "a file, a directory, a glob or a URI",
        ),
        format_option(FORMATS),
        OptionDef(
            "source.monitor-interval",
            _D,
            "look for new files this often; without it the source is bounded",
            roles=_SOURCE,
            minimum=1,
            changes_rows=False,
            paces=True,
        ),
        OptionDef(
            "source.settle-time",
            _D,
            "take a file when it has not changed for so long; 5 s if the source is watched, else 0 (ours)",
            roles=_SOURCE,
            minimum=0,
            changes_rows=False,
            paces=True,
        ),
        OptionDef(
            "source.path.regex-pattern",
            _S,
            "only files whose whole path matches",
            roles=_SOURCE,
            refuse=wrong_path_pattern,
        ),
        OptionDef(
            "partition.default-name",
            _S,
            "the folder for NULL in a partition column",
            default="__HIVE_DEFAULT_PARTITION__",
        ),
        FILE_SIZE,
        _ended_by_epoch("sink.rolling-policy.rollover-interval", "30 min"),
        _ended_by_epoch("sink.rolling-policy.inactivity-interval", "30 min"),
        _ended_by_epoch("sink.rolling-policy.check-interval", "1 min"),
        OptionDef(
            "sink.parallelism", _I, "how many tasks write", roles=_SINK, minimum=1, changes_output=False
        ),
        _committed(
            "sink.partition-commit.policy.kind", ValueKind.ENUM, choices=("success-file", "metastore")
        ),
        _committed(
            "sink.partition-commit.trigger", ValueKind.ENUM, choices=("process-time", "partition-time")
        ),
        _committed("sink.partition-commit.delay", _D),
        _committed("sink.partition-commit.watermark-time-zone", _S),
        _committed("partition.time-extractor.timestamp-pattern", _S),
        _committed("partition.time-extractor.timestamp-formatter", _S),
        OptionDef(
            "auto-compaction",
            ValueKind.BOOLEAN,
            "accepted: files are written whole",
            default="false",
            roles=_SINK,
            changes_output=False,
        ),
        *LOOKUP_OPTIONS,
    ),
    FORMATS,
    metadata=FILES,
    bounded=lambda settings: "source.monitor-interval" not in settings,
    dimension=True,
    sink=SinkAbilities(place=("path",)),
    batch=_batch,
    validate=wrong_lookup,
    validate_sink=wrong_sink,
)
