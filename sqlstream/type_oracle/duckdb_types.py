"""Types and functions as the installed DuckDB says, for the planner, which has none."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from sqlstream_operators.plan.types import NULL, UNKNOWN, SqlType, parse_type
from sqlstream_planner.expressions.oracle import Listed, Question, Refused, Rows, Signature

if TYPE_CHECKING:
    import duckdb

_SETTINGS = {
    "threads": 1,
    # An unknown name must not fetch an extension, and a constant must not read a file.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "memory_limit": "256MB",
}
#: One name may be a function and a macro: what is called is the first of these.
_KINDS = ("macro", "scalar", "aggregate", "window")


class DuckDbTypes:
    """Asks a DuckDB in memory, each question once; it is made when the first question comes.

    It may be shared by threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[Question, SqlType | Refused] = {}
        self._connection: duckdb.DuckDBPyConnection | None = None

    def type_of(self, question: Question) -> SqlType | Refused:
        """The type, UNKNOWN if no column of ours can have it, or why DuckDB refuses."""
        with self._lock:
            answer = self._answers.get(question)
            if answer is None:
                answer = self._answers[question] = self._ask(question)
            return answer

    def failures(self, constants: Sequence[str]) -> Sequence[str | None]:
        """Of each constant: why DuckDB can't compute its value; None: it can, or what it says is not of the value."""
        with self._lock:
            together = ", ".join(constants)
            if not constants or self._computes(together) is None:
                return [None] * len(constants)
            return [_of_value(self._computes(constant)) for constant in constants]

    def functions(self) -> Mapping[str, Listed]:
        """All functions by their names in lower case."""
        with self._lock:
            return self._functions

    def signatures(self, name: str) -> tuple[Signature, ...]:
        """What a function can be called with, by its name in lower case; sorted."""
        with self._lock:
            return self._signatures.get(name, ())

    @cached_property
    def _signatures(self) -> Mapping[str, tuple[Signature, ...]]:
        rows = (
            self._duck()
            .execute(
                """
                SELECT DISTINCT lower(function_name), parameter_types, varargs, return_type FROM duckdb_functions()
                WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')
                """
            )
            .fetchall()
        )
        found: dict[str, set[Signature]] = {}
        for name, parameters, variadic, returns in rows:
            given = tuple(str(p) if p is not None else "ANY" for p in parameters)
            found.setdefault(name, set()).add(Signature(given, str(returns or "ANY"), variadic))
        return {name: tuple(sorted(some, key=str)) for name, some in found.items()}

    @cached_property
    def _functions(self) -> Mapping[str, Listed]:
        rows = (
            self._duck()
            .execute(
                """
                SELECT lower(function_name), function_type, max(coalesce(stability, '')), any_value(macro_definition)
                FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro')
                GROUP BY ALL
                """
            )
            .fetchall()
        )
        order = {kind: number for number, kind in enumerate(_KINDS)}
        rows.sort(key=lambda row: -order[row[1]])
        return {name: Listed(kind, stability, definition or "") for name, kind, stability, definition in rows}

    def _duck(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            import duckdb  # which takes a tenth of a second

            self._connection = duckdb.connect(config=dict(_SETTINGS))
            self._connection.execute("SET TimeZone = 'UTC'")
            self._connection.execute("PRAGMA disable_optimizer")  # it leaves out what NULLs leave nothing of
        return self._connection

    def _computes(self, constants: str) -> duckdb.Error | None:
        """Compute them and leave them in DuckDB: Python can't hold all of its values (2^31 days)."""
        import duckdb

        try:
            self._duck().execute(f"CREATE OR REPLACE TEMP TABLE computed AS SELECT {constants}")
        except duckdb.Error as error:
            if isinstance(error, duckdb.InternalException | duckdb.FatalException):
                self._connection = None  # it answers nothing any more
            return error
        return None

    def _ask(self, question: Question) -> SqlType | Refused:
        import duckdb

        duck = self._duck()
        try:
            relation = duck.sql(question.sql)
            type_ = _type_named(str(relation.types[0]))
        except (duckdb.InternalException, duckdb.FatalException) as error:
            self._connection = None  # it answers nothing any more
            return _refused(error)
        except duckdb.Error as error:
            return _refused(error)
        except UnicodeDecodeError:
            return Refused("DuckDB refuses it")  # its message ends within a character
        return type_ if question.rows is Rows.NONE else _tried(relation, type_, question.rows)


def _tried(relation: duckdb.DuckDBPyRelation, type_: SqlType, rows: Rows) -> SqlType | Refused:
    """The type, or why it can't be done for these rows: of NULLs, because a text can't become what a call wants it to be;
    of values, because DuckDB has not got it. All else may depend on the row.
    """
    import duckdb

    try:
        relation.fetchall()
    except duckdb.ConversionException as error:
        if rows is Rows.NULLS:
            return replace(_refused(error), text=True)
        return type_ if "Unimplemented type for cast" not in str(error) else _refused(error)
    except duckdb.NotImplementedException as error:
        return _refused(error) if rows is Rows.VALUES else type_
    except (duckdb.Error, UnicodeDecodeError):
        return type_
    return type_


def _refused(error: duckdb.Error) -> Refused:
    import duckdb

    first = str(error).split("\n")[0]
    of_value = isinstance(
        error, duckdb.ConversionException | duckdb.InvalidInputException | duckdb.OutOfRangeException
    )
    return Refused(first.partition(" Error: ")[2].strip() or first, of_value)


def _of_value(error: duckdb.Error | None) -> str | None:
    """What DuckDB says of a value; what it says of types, names and memory is not of it."""
    import duckdb

    of_value = isinstance(
        error, duckdb.ConversionException | duckdb.InvalidInputException | duckdb.OutOfRangeException
    )
    text = str(error)
    of_zone = isinstance(error, duckdb.NotImplementedException) and ("TimeZone" in text or "Period" in text)
    if not (of_value or of_zone):
        return None
    line = text.split("\n")[0].partition(": ")[2].strip()
    for hint in ("Use TRY(", "Use TRY_CAST"):
        line = line.partition(hint)[0].strip()
    return line


def _type_named(name: str) -> SqlType:
    if name == '"NULL"':
        return NULL
    try:
        return parse_type(name.replace('"NULL"', "NULL"))
    except ValueError:
        return UNKNOWN
