"""What the source of one row is, to the planner."""

from __future__ import annotations

from sqlstream_planner.catalog.descriptor import ONE_ROW, ConnectorDescriptor

DESCRIPTOR = ConnectorDescriptor(ONE_ROW, "one row, for what a query writes out", roles=())
