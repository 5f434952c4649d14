"""Tables that Spark reads, for connectors: their columns, and copies of their rows that its tasks write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sqlstream.connectors.api import CopiedPart, SparkColumn, SparkRead
from sqlstream.runtime.spark.session import start_session
from sqlstream.runtime.tasks.failures import error_of
from sqlstream.runtime.tasks.task_failure import failure_in
from sqlstream_operators.codec.arrow_types import from_arrow
from sqlstream_operators.plan.spec import Schema
from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.text.masking import HIDDEN, SECRET_NAME, masked_message, secrets_in_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows are Spark's here, not blobs of ours: its own settings are the right ones, and times are UTC.
_CONF: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.session.timeZone": "UTC",
}
#: What Spark says of what is not there, and of what it lacks to read something.
_NOT_THERE = re.compile(
    r"\[(?:TABLE_OR_VIEW_NOT_FOUND|PATH_NOT_FOUND|SCHEMA_NOT_FOUND|REQUIRES_SINGLE_PART_NAMESPACE)|"
    r"does not exist|doesn't exist|no such table|Unknown table|[Tt]able .* not found|is not a recognized"
)
_LACKS = re.compile(
    r"DATA_SOURCE_NOT_FOUND|No suitable driver|ClassNotFoundException|"
    r"NoClassDefFoundError|Failed to find data source"
)
_TOO_LONG = 400


@runtime_checkable
class _WithSession(Protocol):
    """What runs epochs on Spark."""

    def session(self) -> SparkSession:
        """Spark, started if it does not run."""
        ...


def tables_of(runner: object, master: str, conf: Mapping[str, str] | None = None) -> TablesOfSpark:
    """Tables that the Spark of a runner reads; of one that has none, Spark is started on `master` when it is asked."""
    if isinstance(runner, _WithSession):
        return TablesOfSpark(runner.session)
    return TablesOfSpark(lambda: start_session(master, conf))


@dataclass(frozen=True, slots=True)
class TablesOfSpark:
    """See `SparkTables`; `session` starts Spark, or gives the one that runs."""

    session: Callable[[], SparkSession]

    def columns(self, read: SparkRead) -> Sequence[SparkColumn]:
        """The columns that there are."""
        with _errors(read):
            return [
                SparkColumn(one.name, _type_of(one.dataType), one.dataType.simpleString())
                for one in self._frame(read).schema.fields
            ]

    def copy(
        self, read: SparkRead, columns: Schema, store: str, folder: str, most: int | None
    ) -> Sequence[CopiedPart]:
        """Have tasks copy these columns."""
        from sqlstream.runtime.spark.table_parts import PART, TableParts

        with _errors(read):
            frame = self._frame(read)
            rows = frame.select(*(frame[_quoted(column.name)] for column in columns))
            if most is not None:
                rows = rows.limit(most)
            parts = TableParts(store, folder, tuple((column.name, str(column.type)) for column in columns))
            found = rows.mapInArrow(parts, PART).collect()
        found.sort(key=lambda row: (row["partition"], row["number"]))
        return [CopiedPart(row["name"], row["rows"], row["bytes"]) for row in found]

    def _frame(self, read: SparkRead) -> DataFrame:
        spark = self.session().newSession()
        for name, value in _CONF.items():
            spark.conf.set(name, value)
        reader = spark.read.options(**read.options)
        if read.table:
            return reader.table(read.table)
        return reader.format(read.format).load(list(read.paths) or None)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _type_of(type_: Any) -> SqlType | None:
    """What values of a type of Spark's are here; None: there is none."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import NullType, VariantType

    if isinstance(type_, (NullType, VariantType)):
        return None
    try:
        return from_arrow(to_arrow_type(type_, timezone="UTC"))
    except (PySparkException, ValueError):
        return None


@contextmanager
def _errors(read: SparkRead) -> Iterator[None]:
    """Makes diagnostics of what Spark raises inside."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        described = failure_in(str(error))
        if described is not None:
            raise error_of(described) from None
        raise _error(read, list(_said(error))) from None


def _said(error: BaseException | None) -> Iterator[str]:
    """What an exception of Spark's says, and what has caused it, without Java's stack: the line of each exception."""
    while error is not None:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        named = [line.removeprefix(": ") for line in lines if line.startswith((": ", "Caused by: "))]
        yield from (named or lines[:1])
        error = getattr(error, "_cause", None)


def _hidden(read: SparkRead) -> Iterator[str]:
    """What no message may show."""
    for key, value in read.options.items():
        if SECRET_NAME.search(key):
            yield value
        yield from (value[begin:end] for begin, end in secrets_in_url(value))


def _error(read: SparkRead, said: Sequence[str]) -> DiagnosticError:
    text = "\n".join(said)
    # The first says what was tried, the last why it failed.
    what = masked_message("; ".join(dict.fromkeys([*said[:1], *said[-1:]])))[:_TOO_LONG]
    for hidden in filter(None, _hidden(read)):
        what = what.replace(hidden, HIDDEN)
    if _LACKS.search(text):
        return DiagnosticError(
            Diagnostic(
                "ENV023",
                f"Spark lacks what it needs to read {read.location}",
                notes=(what,),
                help="give Spark the package: --conf spark.jars.packages=group:artifact:version, or --conf spark.jars=FILE "
                "(of PostgreSQL org.postgresql:postgresql:42.7.7), or [conf] of sqlstream.toml; a JDBC driver that is "
                "not found by its url also needs its class, 'driver' = '…'",
            ),
            exit_code=5,
        )
    if _NOT_THERE.search(text):
        return DiagnosticError(
            Diagnostic(
                "DAT004", f"{read.location} is not there", notes=(what,), help="mend the table's options"
            )
        )
    return DiagnosticError(
        Diagnostic(
            "ENV006",
            f"{read.location} can't be read",
            notes=(what,),
            help="run again when it is fixed: nothing of it was read",
        )
    )
