"""What SQL reads of the epoch that it runs in: its clock, and the seed of its random numbers.

Both follow from the epoch's plan and from which task it is, so a replay of the epoch reads the same. They are variables
of the DuckDB session; that SQL reads them is told by an input of its stage (`EpochInput`).
"""

from __future__ import annotations

from sqlstream_operators.plan.types import quote_literal

#: The relation that stands among the inputs of SQL which reads them. It has no rows: nothing selects from it.
EPOCH_RELATION = "the epoch"
_CLOCK = "sqlstream_clock"
_SEED = "sqlstream_seed"
#: SQL for the clock, TIMESTAMP WITH TIME ZONE.
CLOCK_SQL = f"CAST(getvariable('{_CLOCK}') AS TIMESTAMP WITH TIME ZONE)"


def random_sql(row: str, call: int) -> str:
    """SQL for 128 random bits as 32 hexadecimal digits: of each row, by its number in the task, and each call others.

    >>> random_sql("n", 2)
    "md5(concat_ws('/', getvariable('sqlstream_seed'), '2', n))"
    """
    return f"md5(concat_ws('/', getvariable('{_SEED}'), '{call}', {row}))"


def clock_settings(now_us: int | None) -> str:
    """SQL that sets the clock, µs since 1970; None: to the time at which it runs."""
    now = "now()" if now_us is None else f"make_timestamptz({now_us})"
    return f"SET VARIABLE {_CLOCK} = {now}"


def seed_settings(seed: str) -> str:
    """SQL that sets the seed of random numbers."""
    return f"SET VARIABLE {_SEED} = {quote_literal(seed)}"
