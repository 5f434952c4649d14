"""The clock of generated rows: row n happens at base time + n / rate, wherever and whenever it is made."""

from __future__ import annotations

import numpy as np

from sqlstream.connectors.generators.randomness import I64, U64


def times_ms(numbers: U64, base_time_us: int, rate: int) -> I64:
    """When these rows happen at `rate` rows per second: ms since 1970, rounded down."""
    number = numbers.astype(np.int64)
    # Whole seconds apart from the rest: number * 1_000_000 would overflow for large numbers.
    past_us = number // rate * 1_000_000 + number % rate * 1_000_000 // rate
    return (base_time_us + past_us) // 1000
