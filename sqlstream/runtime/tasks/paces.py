"""How long epochs take in the driver and on Spark, by those that ran there: where the next one is done sooner."""

from __future__ import annotations

#: An epoch that takes no longer than this in the driver runs there: on Spark the least one takes about as long.
HERE_S = 0.2
#: One that takes longer does not, even where Spark has been slower or does not run yet, whose start takes many times that:
#: there it may use all cores.
_MOST_S = 1.0
#: The part of an estimate that the newest epoch decides.
_NEW = 0.5
#: What epochs on Spark leave of the estimate for the driver, so that one slow epoch there is not for ever.
_FORGET = 0.98


class Paces:
    """Estimates from the epochs of a run: seconds by number of rows (powers of two), of the driver and of Spark."""

    def __init__(self) -> None:
        self._here: dict[int, float] = {}
        self._on_spark: dict[int, float] = {}

    def note(self, rows: int, seconds: float, *, here: bool) -> None:
        """An epoch of so many rows has taken so long."""
        if not rows:
            return
        if not here:
            self._here = {size: known * _FORGET for size, known in self._here.items()}
        estimates = self._here if here else self._on_spark
        before = estimates.get(rows.bit_length(), seconds)
        estimates[rows.bit_length()] = before + (seconds - before) * _NEW

    def is_sooner_here(self, rows: int, *, spark_runs: bool) -> bool:
        """Whether an epoch of so many rows is done in the driver before Spark would be done; False before any is known.

        The driver's estimate for more rows than were seen grows with them, Spark's for fewer shrinks with them: an epoch
        goes to Spark in doubt.
        """
        here = _nearest(self._here, rows)
        if here is None:
            return False
        size, seconds = here
        seconds *= max(2.0 ** (rows.bit_length() - size), 1.0)
        on_spark = _nearest(self._on_spark, rows)
        least = HERE_S if spark_runs else _MOST_S
        if on_spark is not None:
            least = max(least, on_spark[1] * min(2.0 ** (rows.bit_length() - on_spark[0]), 1.0))
        return seconds <= min(least, _MOST_S)


def _nearest(estimates: dict[int, float], rows: int) -> tuple[int, float] | None:
    return min(estimates.items(), key=lambda item: abs(item[0] - rows.bit_length()), default=None)
