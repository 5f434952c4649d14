"""What the `print` connector is, to the planner."""

from __future__ import annotations

from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Past, SinkAbilities
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SINK = (Role.SINK,)

DESCRIPTOR = ConnectorDescriptor(
    "print",
    "rows on the terminal",
    _SINK,
    (
        OptionDef(
            "print-identifier",
            ValueKind.STRING,
            "stands before each row",
            roles=_SINK,
            changes_output=False,
        ),
        OptionDef(
            "standard-error",
            ValueKind.BOOLEAN,
            "write to standard error",
            default="false",
            roles=_SINK,
            changes_output=False,
        ),
        OptionDef(
            "sink.parallelism",
            ValueKind.INTEGER,
            "how many tasks write",
            roles=_SINK,
            minimum=1,
            changes_output=False,
        ),
    ),
    sink=SinkAbilities(changes=True, past=Past.SHOWN),
)
