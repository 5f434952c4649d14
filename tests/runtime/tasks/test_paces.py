"""Where an epoch is done sooner, in the driver or on Spark, by what epochs have taken there."""

from __future__ import annotations

from sqlstream.runtime.tasks.paces import HERE_S, Paces


def paces(*noted: tuple[int, float, bool]) -> Paces:
    made = Paces()
    for rows, seconds, here in noted:
        made.note(rows, seconds, here=here)
    return made


def test_nothing_is_known_before_an_epoch_of_some_rows_has_run_here() -> None:
    assert not paces().is_sooner_here(500, spark_runs=True)
    assert not paces((0, 0.001, True)).is_sooner_here(500, spark_runs=True)
    assert not paces((10, 0.01, True)).is_sooner_here(500, spark_runs=True), "of so few rows it says little"
    assert not paces((5000, 0.001, False)).is_sooner_here(500, spark_runs=True)


def test_an_epoch_that_is_quick_here_runs_here() -> None:
    known = paces((4000, HERE_S / 2, True))
    assert known.is_sooner_here(4000, spark_runs=True)
    assert known.is_sooner_here(8000, spark_runs=True)
    assert not known.is_sooner_here(16000, spark_runs=True), (
        "twice the size is estimated to take twice as long"
    )
    assert known.is_sooner_here(10, spark_runs=True)


def test_where_spark_is_slower_an_epoch_runs_here_for_longer() -> None:
    known = paces((4000, 0.3, True), (4000, 0.5, False))
    assert known.is_sooner_here(4000, spark_runs=True)
    assert not paces((4000, 0.3, True), (4000, 0.29, False)).is_sooner_here(4000, spark_runs=True)
    assert not paces((4000, 0.3, True), (400_000, 5.0, False)).is_sooner_here(4000, spark_runs=True), (
        "of much it says little"
    )
    assert not paces((4000, 1.1, True), (4000, 5.0, False)).is_sooner_here(4000, spark_runs=True), (
        "Spark has more cores"
    )


def test_an_epoch_that_was_slow_once_is_tried_again() -> None:
    known = paces((4000, 0.1, True), (4000, 0.7, True))
    assert not known.is_sooner_here(4000, spark_runs=True)
    for _ in range(60):
        known.note(4000, 0.15, here=False)
    assert known.is_sooner_here(4000, spark_runs=True)


def test_for_an_epoch_of_less_than_a_second_spark_is_not_started() -> None:
    known = paces((4000, 0.9, True))
    assert known.is_sooner_here(4000, spark_runs=False)
    assert not known.is_sooner_here(8000, spark_runs=False)
