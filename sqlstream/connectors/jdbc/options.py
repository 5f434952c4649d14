"""What a table on `jdbc` says is to be read; its options are called as in Flink's."""

from __future__ import annotations

from sqlstream.connectors.api import SparkRead
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.text.masking import without_password

#: The options of a read that several connections do at once, and what Spark calls them; all or none.
PARTITIONING = {
    "scan.partition.column": "partitionColumn",
    "scan.partition.num": "numPartitions",
    "scan.partition.lower-bound": "lowerBound",
    "scan.partition.upper-bound": "upperBound",
}
_NAMES = {
    "url": "url",
    "username": "user",
    "password": "password",
    "driver": "driver",
    "scan.fetch-size": "fetchsize",
    **PARTITIONING,
}


def jdbc_read(spec: SourceSpec, base_dir: str) -> SparkRead:
    """The table, as Spark's JDBC reader wants it."""
    given = {name: spec.options[key] for key, name in _NAMES.items() if key in spec.options}
    table = spec.options.get("table-name", spec.name)
    # A time without a zone is no instant: without this, Spark makes one of it by the zone of its machine.
    options = {"dbtable": table, "preferTimestampNTZ": "true", **given}
    location = f"table {table} in {without_password(given['url'])}"
    return SparkRead(location, "jdbc", options, hidden=tuple(filter(None, [given.get("password")])))
