"""The history of epochs: what was added is read back, newest first, however runs are cut; and it is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.storage import epoch_history
from sqlstream.storage.epoch_history import (
    FOLDER,
    EpochRecord,
    History,
    HistoryWriter,
    TaskFigures,
    files,
    summary_of,
)
from sqlstream_operators.state.checkpoint_store import CheckpointStore


def record(epoch: int, **other: object) -> EpochRecord:
    made = EpochRecord(
        epoch=epoch,
        at_us=1_700_000_000_000_000 + epoch,
        run="r",
        digest="d",
        seconds={"plan": 0.1, "job": 0.25},
        read={"t": epoch},
        written={"o": 2},
        state_rows=3,
        state_bytes=4,
        lag={"t": None},
        watermarks={"t": "end", "u": 5, "v": None},
        tasks=(TaskFigures("0-00000", 1, 2, 3, {"read": 4, "state": 5}),),
        task_count=7,
    )
    return EpochRecord(**{**{name: getattr(made, name) for name in made.__slots__}, **other})


def store(folder: Path) -> CheckpointStore:
    return CheckpointStore(str(folder), sync=False)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(1, 5), max_size=5), max_size=4))
def test_epochs_of_several_runs_come_back(
    tmp_path_factory: pytest.TempPathFactory, runs: Sequence[Sequence[int]]
) -> None:
    """Each run is a writer that writes from time to time; a file has three epochs."""
    place = store(tmp_path_factory.mktemp("history"))
    epoch = 0
    for beats in runs:
        writer = HistoryWriter(place, per_file=3)
        for added in beats:
            for _ in range(added):
                epoch += 1
                writer.add(record(epoch))
            writer.write()
    history = History(place)
    expected = [record(n) for n in range(epoch, 0, -1)]
    assert list(history.latest()) == expected
    assert list(history.latest()) == expected, "closed files are remembered"
    assert list(history.latest(before=4)) == [one for one in expected if one.epoch < 4]
    sums = [summary_of(one.to_json()) for one in reversed(expected)]
    for number in (1, 4, 1000, 4):
        assert history.summaries(number) == sums[-number:]
    assert history.find(2) == (record(2) if epoch >= 2 else None)
    assert history.find(epoch + 1) is None


def test_old_epochs_are_forgotten(tmp_path: Path) -> None:
    place = store(tmp_path)
    writer = HistoryWriter(place, kept=20, per_file=5)
    for epoch in range(1, 201):
        writer.add(record(epoch))
        writer.write()
    kept = [one.epoch for one in History(place).latest()]
    assert kept == list(range(200, 200 - len(kept), -1))
    assert 20 <= len(kept) <= 30
    assert len(files(place)) <= 6


def test_a_file_is_closed_when_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_history, "FILE_BYTES", 1000)
    place = store(tmp_path)
    writer = HistoryWriter(place)
    for epoch in range(1, 31):
        writer.add(record(epoch))
        writer.write()
    sizes = [place.size(name) or 0 for name in files(place)]
    assert len(sizes) > 5
    assert max(sizes) < 2000


def test_only_the_files_that_are_asked_for_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = store(tmp_path)
    writer = HistoryWriter(place, per_file=10)
    for epoch in range(1, 501):
        writer.add(record(epoch))
    writer.write()
    read: list[str] = []
    get = place.get

    def noted(name: str) -> bytes:
        read.append(name)
        return get(name)

    monkeypatch.setattr(place, "get", noted)
    assert len(list(islice(History(place).latest(before=300), 15))) == 15
    assert read == [f"{FOLDER}/{291:012d}.log", f"{FOLDER}/{281:012d}.log"]


def test_a_store_that_is_away_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = store(tmp_path)
    writer = HistoryWriter(place)
    writer.add(record(1))

    def away(*_: object) -> None:
        raise OSError("away")

    with monkeypatch.context() as patched:
        patched.setattr(place, "put", away)
        with pytest.raises(OSError, match="away"):
            writer.write()
    writer.add(record(2))
    writer.write()
    assert [one.epoch for one in History(place).latest()] == [2, 1]


def test_a_line_of_another_version_is_passed_over(tmp_path: Path) -> None:
    place = store(tmp_path)
    writer = HistoryWriter(place)
    writer.add(record(1))
    writer.write()
    (name,) = files(place)
    place.put(name, b'{"epoch": "x"}\nno JSON\n' + place.get(name))
    assert [one.epoch for one in History(place).latest()] == [1]
