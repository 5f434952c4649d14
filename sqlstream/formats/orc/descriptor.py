"""What the format `orc` is, to the planner."""

from __future__ import annotations

from sqlstream.formats.shared_options import by_name
from sqlstream_planner.catalog.descriptor import FormatDescriptor
from sqlstream_planner.catalog.options import Role

ORC = FormatDescriptor("orc", (Role.SOURCE,), lookup=by_name)
