"""Bytes and JSON are written as every release since `formatN` has written them, and read back whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlstream.storage import checked_json
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoint_copies import the_savepoint_in
from sqlstream_operators.operators.registry import OPERATORS
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import OperatorStep
from sqlstream_operators.plan.types import Kind
from sqlstream_operators.state.version import ShardVersion
from tests.compat.cases import HERE, Case, cases, formats
from tests.compat.encodings import VALUES, encodings

NEWEST = formats()[-1]
#: What a new format is: see README.md.
ADVICE = (
    "stored state would be misread: think again, or raise FORMAT, read both, and write tests/compat/format"
    f"{NEWEST + 1} (tests/compat/README.md)"
)


def test_the_newest_format_has_savepoints() -> None:
    assert checked_json.FORMAT == NEWEST, ADVICE
    assert cases(NEWEST)


def test_every_encoding_is_as_it_was() -> None:
    kept = json.loads((HERE / f"format{NEWEST}" / "encodings.json").read_text())
    now = encodings()
    assert kept.keys() <= now.keys()
    changed = {name: (text, now[name]) for name, text in kept.items() if now[name] != text}
    assert not changed, f"{ADVICE}\n{changed}"


def test_every_type_that_can_be_in_state_has_its_encodings() -> None:
    assert {type_.kind for type_ in VALUES} == set(Kind) - {Kind.NULL, Kind.UNKNOWN}


@pytest.mark.parametrize("case", cases(), ids=str)
def test_json_is_read_whole(case: Case, tmp_path: Path) -> None:
    """What a release has written is understood to the last name: it is there when it is written again."""
    exported = case.savepoint(tmp_path)
    savepoint = the_savepoint_in(exported)
    before = json.loads(exported.get(savepoint.file))
    after = json.loads(savepoint.to_bytes())
    # Names may be added: that is another checksum, and another format only if an older program has to know it.
    left_out = {"checksum"} if case.folder.parent.name == f"format{NEWEST}" else {"checksum", "format"}
    assert list(_lost(before, after, left_out)) == []
    for state in savepoint.manifest.states:
        for shard in state.shards:
            assert list(_lost(dict(shard), ShardVersion.from_json(shard).to_json(), set())) == []
    kept = Journal(exported).physical_plan(savepoint.manifest.plan_digest).decode()
    assert list(_lost(json.loads(kept), plan_json.to_json(plan_json.from_text(kept)), set())) == []


def _lost(before: Any, after: Any, left_out: set[str], path: str = "") -> Iterator[str]:
    """Where a part of `before` is not in `after`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in left_out:
                continue
            if name not in after:
                yield f"{path}.{name}"
            else:
                yield from _lost(value, after[name], left_out, f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, left_out, f"{path}[{number}]")
    elif before != after:
        yield f"{path}: {before!r} became {after!r}"


def test_every_operator_with_state_is_among_the_cases(tmp_path: Path) -> None:
    kinds: set[str] = set()
    layouts: set[str] = set()
    forgetful = 0
    for case in cases(NEWEST):
        exported = case.savepoint(tmp_path / case.folder.name)
        savepoint = the_savepoint_in(exported)
        plan = plan_json.from_text(Journal(exported).physical_plan(savepoint.manifest.plan_digest).decode())
        with_rows = {s.state_id for s in savepoint.manifest.states if any(x["rows"] for x in s.shards)}
        for stage in plan.stages:
            for step in stage.steps:
                if not isinstance(step, OperatorStep):
                    continue
                spec = step.operator
                if spec.state.state_id in with_rows:
                    kinds.add(spec.kind)
                    layouts |= {table.layout for table in spec.state.tables}
                    forgetful += getattr(spec, "ttl_us", None) is not None
    assert kinds == {spec.kind for spec in OPERATORS}, "write a case, and savepoints of a new format"
    assert layouts == {"key", "time", "list"}
    assert forgetful


def test_the_savepoints_have_deltas_and_snapshots(tmp_path: Path) -> None:
    found: set[str] = set()
    for case in cases(NEWEST):
        manifest = the_savepoint_in(case.savepoint(tmp_path / case.folder.name)).manifest
        for state in manifest.states:
            for shard in state.shards:
                found |= {part for part in ("snapshot", "deltas") if shard[part]}
                found |= {"ranges" for delta in shard["deltas"] if delta[2]}
                assert shard["schemas"]
    assert found == {"snapshot", "deltas", "ranges"}
