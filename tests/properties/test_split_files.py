"""A file is split: each part starts from the whole's savepoint and finds its state by what it means (row 36)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.properties.in_process import run_here
from tests.properties.updating import collecting

TABLE = (
    "CREATE TABLE {t} (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
)
PARTS = {
    "counts": "CREATE TABLE counts WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n FROM {t} GROUP BY k;\n",
    "highest": "CREATE TABLE highest WITH ('connector' = 'blackhole') AS SELECT v % 2 AS p, MAX(k) AS m FROM {t} "
    "GROUP BY v % 2;\n",
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_goes_on_from_the_state_of_the_whole(part: str, tmp_path: Path) -> None:
    rows = [{"k": n % 3, "v": n} for n in range(20)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "whole.sql").write_text((TABLE + "".join(PARTS.values())).format(t="t"))
    (tmp_path / "part.sql").write_text((TABLE + PARTS[part]).format(t="renamed"))
    whole, alone = plan_file(tmp_path / "whole.sql"), plan_file(tmp_path / "part.sql")
    with collecting():
        run_here(whole, tmp_path, rows_per_epoch=4, max_epochs=2)
    store = CheckpointStore(tmp_path / "state", sync=False)
    origin = Origin(store, Savepoints(store).create("cut"))
    read: Counter[str] = Counter()
    with collecting() as collected:
        run_here(
            alone,
            tmp_path,
            state="part",
            origin=origin,
            parallelism=3,
            on_epoch=lambda report: read.update(report.rows_read),
        )
        expected = {
            "counts": Counter({(0, 7): 1, (1, 7): 1, (2, 6): 1}),
            "highest": Counter({(0, 2): 1, (1, 2): 1}),
        }
        assert Counter(collected.folded(part)) == expected[part]
    assert sum(read.values()) == 12  # nothing is read again
