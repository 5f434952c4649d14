"""Both halves of `spark`, as the registry wants them."""

from __future__ import annotations

from sqlstream.connectors.spark.options import spark_read
from sqlstream.connectors.spark_tables.dimension import SparkDimension
from sqlstream.connectors.spark_tables.source import SparkTableFactory


class SparkFactory(SparkTableFactory):
    """Tables that Spark reads, by a name of its catalog or by a format."""

    def __init__(self) -> None:
        super().__init__(spark_read)


class SparkLookups(SparkDimension):
    """The same for lookup joins."""

    def __init__(self) -> None:
        super().__init__(spark_read)
