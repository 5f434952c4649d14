"""A budget of dead letters: an epoch that has too many is not committed, and the way on is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_changed_files import World


def lines(world: World, name: str, good: list[int], bad: int) -> Path:
    path = world.put(name, good)
    path.write_text(path.read_text() + "oops\n" * bad)
    return path


def letters(world: World) -> int:
    files = (world.folder / "state/dead-letter").glob("*.jsonl")
    return sum(len(file.read_text().splitlines()) for file in files)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("'execution.max-dead-letters' = '2'", "there are 3 since the state directory began, and 'execution.max-dead"),
        ("'execution.max-dead-letter-share' = '0.2'", "there are 3 in the last 7 rows, and 'execution.max-dead-letter-s"),
    ],
)  # fmt: skip
def test_more_than_there_may_be_stop_the_run_before_they_are_committed(
    tmp_path: Path, setting: str, expected: str
) -> None:
    world = World(tmp_path, settings=f"SET {setting};")
    path = lines(world, "x.json", [1, 2, 3, 4], 3)
    for _ in range(2):
        error = world.fails()
        assert error.code == "DAT005"
        assert "epoch 1 has 3 malformed" in error.message
        assert expected in error.notes[0]
        assert f"{path}, line 5: not valid JSON: oops" in error.notes
        assert (world.read(), letters(world)) == ([], 0)
    world.put("x.json", [1, 2, 3, 4, 5])
    world.run()
    assert (world.read(), letters(world)) == ([1, 2, 3, 4, 5], 0)


@pytest.mark.parametrize(
    "setting",
    [
        "'execution.max-dead-letters' = '3'",
        "'execution.max-dead-letter-share' = '0.5'",
        "'execution.max-dead-letters' = '9'",
    ],
)
def test_as_many_as_there_may_be_are_no_error(tmp_path: Path, setting: str) -> None:
    world = World(tmp_path, settings=f"SET {setting};")
    lines(world, "x.json", [1, 2, 3, 4], 3)
    assert world.run().dead_letters == {"malformed": 3}
    assert (world.read(), letters(world)) == ([1, 2, 3, 4], 3)


def test_the_budget_is_of_the_state_directory_and_raising_it_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path, settings="SET 'execution.max-dead-letters' = '3';")
    lines(world, "1.json", [1], 2)
    world.run()
    lines(world, "2.json", [2], 2)
    lines(world, "3.json", [3], 0)
    assert "there are 4 since" in world.fails().notes[0]
    assert "there are 4 since" in world.fails().notes[0], "a restart gives no new budget"
    assert (world.read(), letters(world)) == ([1], 2)
    file = tmp_path / "p.sql"
    file.write_text(file.read_text().replace("'3'", "'4'"))
    world.run()
    assert (world.read(), letters(world)) == ([1, 2, 3], 4)


def test_nothing_but_malformed_rows(tmp_path: Path) -> None:
    world = World(tmp_path, settings="SET 'execution.max-dead-letter-share' = '0.99';")
    lines(world, "x.json", [], 5)
    assert "5 in the last 5 rows" in world.fails().notes[0]


def test_an_epoch_without_dead_letters_is_never_too_much(tmp_path: Path) -> None:
    """A budget that is lowered below what there is stops the next dead letter, and no good row."""
    world = World(tmp_path)
    lines(world, "1.json", [1], 5)
    world.run()
    file = tmp_path / "p.sql"
    file.write_text("SET 'execution.max-dead-letters' = '0';\n" + file.read_text())
    lines(world, "2.json", [2], 0)
    world.run()
    assert world.read() == [1, 2]
    lines(world, "3.json", [3], 1)
    assert world.fails().code == "DAT005"


def test_where_all_rows_are_bad_the_run_stops_by_itself(tmp_path: Path) -> None:
    """The declaration is wrong, and not the rows."""
    world = World(tmp_path)
    lines(world, "1.json", [], 100)
    error = world.fails()
    assert error.code == "DAT005"
    assert error.message == "none of the 100 rows of epoch 1 can be used: all of them are dead letters"
    assert (world.read(), letters(world)) == ([], 0)
    lines(world, "1.json", [1], 100)
    assert world.run().dead_letters == {"malformed": 100}
    assert (world.read(), letters(world)) == ([1], 100)


@pytest.mark.parametrize("bad", [1, 99])
def test_a_few_bad_rows_alone_are_no_error(tmp_path: Path, bad: int) -> None:
    world = World(tmp_path)
    lines(world, "1.json", [], bad)
    assert world.run().dead_letters == {"malformed": bad}


def test_that_all_rows_are_bad_can_be_allowed(tmp_path: Path) -> None:
    world = World(tmp_path, settings="SET 'execution.max-dead-letter-share' = '1';")
    lines(world, "1.json", [], 200)
    assert world.run().dead_letters == {"malformed": 200}
