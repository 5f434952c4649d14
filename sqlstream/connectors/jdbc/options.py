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
#: The classes of drivers, by what follows `jdbc:` in a url: a driver that Spark was given by its settings does not register
#: itself where it runs.
_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "h2": "org.h2.Driver",
    "sqlite": "org.sqlite.JDBC",
    "snowflake": "net.snowflake.client.jdbc.SnowflakeDriver",
}
#: Rows per round trip: without a number some drivers fetch the whole table into the memory of one machine.
FETCHED = "10000"


def jdbc_read(spec: SourceSpec, base_dir: str) -> SparkRead:
    """The table, as Spark's JDBC reader wants it."""
    given = {name: spec.options[key] for key, name in _NAMES.items() if key in spec.options}
    table = spec.options.get("table-name", spec.name)
    # A time without a zone is no instant: without this, Spark makes one of it by the zone of its machine.
    options = {"dbtable": table, "preferTimestampNTZ": "true", "fetchsize": FETCHED, **given}
    kind = given["url"].split(":")[1] if given["url"].count(":") > 1 else ""
    if "driver" not in options and kind in _DRIVERS:
        options["driver"] = _DRIVERS[kind]
    location = f"table {table} in {without_password(given['url'])}"
    return SparkRead(location, "jdbc", options)
