"""Spark for tables that it reads, where no run has started it: as the project of a folder says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.project import load_project
from sqlstream.runtime.spark.session import start_session
from sqlstream.runtime.spark.tables import TablesOfSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_of(folder: Path) -> TablesOfSpark:
    """What reads tables; Spark is started when it is first asked."""

    def started() -> SparkSession:
        project = load_project(folder, None)
        return start_session(project.master or "local[*]", project.conf)

    return TablesOfSpark(started)
