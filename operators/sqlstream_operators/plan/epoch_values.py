"""What SQL reads of the epoch that it runs in: its clock, the seed of its random numbers, and when rows arrive in it.

All follow from the epoch's plan and from which task it is, so a replay of the epoch reads the same. They are variables
of the DuckDB session; that SQL reads them is declared by an input of its stage (`EpochInput`).
"""

from __future__ import annotations

from sqlstream_operators.plan.types import quote_literal

#: The relation that stands among the inputs of SQL which reads them. It has no rows: nothing selects from it.
EPOCH_RELATION = "the epoch"
#: The same for SQL that reads nothing but the order of arrival, which a history that is read again has, too.
ARRIVAL_RELATION = "the order of arrival"
OF_EPOCH = frozenset({EPOCH_RELATION, ARRIVAL_RELATION})
_CLOCK = "sqlstream_clock"
_SEED = "sqlstream_seed"
_ARRIVAL = "sqlstream_arrival"
_PLACE = "sqlstream_place"
#: What a task has of the numbers of rows in an epoch.
_ROWS_OF_TASK = 1 << 40
#: SQL for the epoch's place in the order of arrival, BIGINT.
ARRIVAL_SQL = f"CAST(getvariable('{_ARRIVAL}') AS BIGINT)"
#: SQL for the clock, TIMESTAMP WITH TIME ZONE.
CLOCK_SQL = f"CAST(getvariable('{_CLOCK}') AS TIMESTAMP WITH TIME ZONE)"


def random_sql(row: str, call: int) -> str:
    """SQL for 128 random bits as 32 hexadecimal digits: of each row, by its number in the task, and each call others.

    >>> random_sql("n", 2)
    "md5(concat_ws('/', getvariable('sqlstream_seed'), '2', n))"
    """
    return f"md5(concat_ws('/', getvariable('{_SEED}'), '{call}', {row}))"


def place_sql(row: str) -> str:
    """SQL for the place of a row in the epoch that reads it, BIGINT, by its number in the task.

    >>> place_sql("n")
    "(CAST(getvariable('sqlstream_place') AS BIGINT) + n)"
    """
    return f"(CAST(getvariable('{_PLACE}') AS BIGINT) + {row})"


def arrival_settings(arrival: int, ordinal: int) -> str:
    """SQL that sets the epoch's place in the order of arrival, and that of the task's first row in the epoch."""
    return f"SET VARIABLE {_ARRIVAL} = {arrival}; SET VARIABLE {_PLACE} = {ordinal * _ROWS_OF_TASK}"


def clock_settings(now_us: int | None) -> str:
    """SQL that sets the clock, µs since 1970; None: to the time at which it runs."""
    now = "now()" if now_us is None else f"make_timestamptz({now_us})"
    return f"SET VARIABLE {_CLOCK} = {now}"


def seed_settings(seed: str) -> str:
    """SQL that sets the seed of random numbers."""
    return f"SET VARIABLE {_SEED} = {quote_literal(seed)}"
