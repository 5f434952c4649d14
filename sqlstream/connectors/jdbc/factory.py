"""Both halves of `jdbc`, as the registry wants them."""

from __future__ import annotations

from sqlstream.connectors.jdbc.options import jdbc_read
from sqlstream.connectors.spark_tables.dimension import SparkDimension
from sqlstream.connectors.spark_tables.source import SparkTableFactory


class JdbcFactory(SparkTableFactory):
    """Tables in databases, read through their JDBC drivers."""

    def __init__(self) -> None:
        super().__init__(jdbc_read)


class JdbcLookups(SparkDimension):
    """The same for lookup joins."""

    def __init__(self) -> None:
        super().__init__(jdbc_read)
