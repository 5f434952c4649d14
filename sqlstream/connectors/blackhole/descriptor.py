"""What the `blackhole` connector is, to the planner."""

from __future__ import annotations

from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Past, SinkAbilities
from sqlstream_planner.catalog.options import Role

DESCRIPTOR = ConnectorDescriptor(
    "blackhole",
    "rows are counted and dropped",
    (Role.SINK,),
    sink=SinkAbilities(changes=True, past=Past.DROPPED),
)
