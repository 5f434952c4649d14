"""Positions go with the data: tables that are renamed or swap their names between runs go on where their data was left."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.properties.in_process import run_here
from tests.runtime.support import Crash, crash_at, manifests


@dataclass
class Job:
    """Rows of folders, copied by one INSERT for each of some tables, in runs over one state directory."""

    folder: Path

    def add(self, folder: str, file: str, *numbers: int) -> None:
        path = self.folder / folder / f"{file}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps({"v": number}) + "\n" for number in numbers))

    def planned(self, tables: dict[str, str], query: str = "SELECT v FROM {table}") -> Planned:
        """`tables`: their names, and the folders that they read."""
        text = "".join(
            f"CREATE TABLE {name} (v BIGINT) "
            f"WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json');\n"
            for name, folder in tables.items()
        )
        text += "CREATE TABLE o (v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');\n"
        union = " UNION ALL ".join(query.format(table=name) for name in tables)
        (self.folder / "p.sql").write_text(f"{text}INSERT INTO o {union};\n")
        planned = plan_file(self.folder / "p.sql")
        sources = tuple(
            replace(s, identity=s.identity or json.dumps({"options": {"path": s.options["path"]}}))
            for s in planned.physical.sources
        )
        return replace(planned, physical=replace(planned.physical, sources=sources))

    def run(self, tables: dict[str, str], **options: Any) -> None:
        run_here(self.planned(tables), self.folder, **options)

    def out(self) -> Counter[int]:
        return Counter(
            json.loads(line)["v"]
            for file in (self.folder / "out").glob("*.json")
            for line in file.read_text().splitlines()
        )


def filled(tmp_path: Path) -> Job:
    job = Job(tmp_path)
    job.add("one", "0", 1, 2, 3, 4)
    job.add("two", "0", 10, 20)
    job.add("two", "1", 30, 40)
    return job


@pytest.mark.parametrize(
    "cut", [{"rows_per_epoch": 3, "max_epochs": 1}, {}], ids=["in the middle", "at the end"]
)
def test_two_tables_swap_their_names(tmp_path: Path, cut: dict[str, Any]) -> None:
    job = filled(tmp_path)
    job.run({"a": "one", "b": "two"}, **cut)
    job.add("one", "1", 5)
    job.add("two", "2", 50)
    for tables in ({"b": "one", "a": "two"}, {"a": "one", "b": "two"}, {"x": "one", "a": "two"}):
        job.run(tables)
        assert job.out() == Counter([1, 2, 3, 4, 5, 10, 20, 30, 40, 50])


def test_a_begun_epoch_of_other_names_is_read_by_its_data(tmp_path: Path) -> None:
    job = filled(tmp_path)
    with pytest.raises(Crash):
        job.run({"a": "one", "b": "two"}, rows_per_epoch=3, faults=crash_at("prepared", 2))
    job.run({"b": "one", "a": "two"})
    assert job.out() == Counter([1, 2, 3, 4, 10, 20, 30, 40])


def test_a_renamed_table_keeps_its_position_and_its_list_of_files(tmp_path: Path) -> None:
    job = filled(tmp_path)
    job.run({"a": "two"}, rows_per_epoch=1, max_epochs=1)
    job.run({"c": "two"}, rows_per_epoch=1)
    assert job.out() == Counter([10, 20, 30, 40])
    [source] = max(manifests(tmp_path / "state").items())[1]["sources"]
    assert (source["name"], source["folder"]) == ("c", "sources/a")


def test_two_tables_of_one_identity(tmp_path: Path) -> None:
    job = filled(tmp_path)
    both = Counter([1, 1, 2, 2, 3, 3, 4, 4])
    job.run({"a": "one", "b": "one"}, rows_per_epoch=2, max_epochs=1)
    job.run({"b": "one", "c": "one"}, rows_per_epoch=2, max_epochs=1)
    job.run({"d": "one", "c": "one"})
    assert job.out() == both


def test_other_data_under_one_name_is_refused_and_says_what_differs(tmp_path: Path) -> None:
    job = filled(tmp_path)
    job.run({"a": "one"})
    with pytest.raises(DiagnosticError) as caught:
        job.run({"a": "two"})
    [diagnostic] = caught.value.diagnostics
    assert (caught.value.exit_code, diagnostic.code) == (4, "STA011")
    assert "the table `a` has other data than before" in diagnostic.message
    assert any(note.startswith("path was '") and "one" in note and "two" in note for note in diagnostic.notes)
    with pytest.raises(DiagnosticError) as caught:
        job.run({"a": "two", "c": "two"})
    assert [d.code for d in caught.value.diagnostics] == ["STA011"]


def test_a_source_comes_goes_and_goes_on_where_it_was(tmp_path: Path) -> None:
    job = filled(tmp_path)
    job.run({"a": "one"})
    job.run({"a": "one", "b": "two"})
    assert job.out() == Counter([1, 2, 3, 4, 10, 20, 30, 40])
    job.add("one", "1", 5)
    job.add("two", "2", 50)
    job.run({"a": "one"})
    job.run({"a": "one"})  # its position is carried on from epoch to epoch
    assert job.out() == Counter([1, 2, 3, 4, 5, 10, 20, 30, 40])
    job.add("two", "3", 60)
    with pytest.raises(Crash):
        job.run({"c": "two", "a": "one"}, faults=crash_at("prepared", 4))
    job.run({"c": "two", "a": "one"})
    assert job.out() == Counter([1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 60])


def state(name: str, identity: str, row: int) -> SourceState:
    return SourceState(name, "x", {"row": row}, identity=identity, folder=f"sources/{name}")


def spec(name: str, identity: str) -> SourceSpec:
    return SourceSpec(name, "x", {}, (), (), identity=identity)


@pytest.mark.parametrize(
    ("before", "specs", "found"),
    [
        ([("a", "I", 1), ("b", "J", 2)], [("b", "I"), ("a", "J")], {"b": 1, "a": 2}),
        ([("a", "I", 1), ("b", "I", 2)], [("b", "I"), ("c", "I")], {"b": 2, "c": 1}),
        ([("a", "I", 1), ("b", "I", 2)], [("c", "I"), ("d", "I")], {}),  # which is which can't be told
        ([("a", "I", 1), ("b", "I", 1)], [("c", "I"), ("d", "I")], {"c": 1, "d": 1}),
        ([("a", "", 1), ("b", "", 2)], [("b", ""), ("c", "")], {"b": 2}),  # a connector that does not say
        ([("a", "I", 1)], [("a", "J")], {}),
    ],
)
def test_which_goes_on_as_which(
    before: list[tuple[str, str, int]], specs: list[tuple[str, str]], found: dict[str, int]
) -> None:
    matched = go_on([state(*one) for one in before], [spec(*one) for one in specs])
    assert {name: one.position["row"] for name, one in matched.items()} == found
    assert all(one.name == name for name, one in matched.items())
