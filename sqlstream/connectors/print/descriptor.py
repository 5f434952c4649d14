"""What the `print` connector is, to the planner."""

from __future__ import annotations

from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, SinkAbilities
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SINK = (Role.SINK,)

DESCRIPTOR = ConnectorDescriptor(
    "print",
    "rows on the terminal",
    _SINK,
    (
        OptionDef("print-identifier", ValueKind.STRING, "stands before each row", roles=_SINK),
        OptionDef(
            "standard-error", ValueKind.BOOLEAN, "write to standard error", default="false", roles=_SINK
        ),
        OptionDef("sink.parallelism", ValueKind.INTEGER, "how many tasks write", roles=_SINK, minimum=1),
    ),
    sink=SinkAbilities(changes=True),
)
