"""Stored fields have ids that are never used again, and manifests carry them, and what the state and the job are, on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.storage.field_ids import FieldIds
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import BIGINT, INTEGER, SqlType
from tests.operators.pipelines import window_plan
from tests.runtime.support import TUMBLE, Crash, World, crash_at, manifests, rows_of, tumbling

EVENTS = rows_of(*((ts, "ab"[ts % 2]) for ts in range(1, 60, 4)))
TYPES = (BIGINT, INTEGER)


def state(state_id: str, fields: dict[str, SqlType]) -> StateSchema:
    value = [StateField(meaning, type_, meaning) for meaning, type_ in fields.items()]
    return StateSchema(state_id, "o", "d", (StateTable.of("t", "key", value=value),))


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("xy"), st.dictionaries(st.sampled_from("abc"), st.sampled_from(TYPES)), max_size=2
        ),
        max_size=6,
    )
)
def test_an_id_means_one_thing_for_ever(versions: list[dict[str, dict[str, SqlType]]]) -> None:
    ids = FieldIds({})
    meant: dict[int, tuple[str, ...]] = {}
    there: dict[tuple[str, ...], int] = {}
    for version in versions:
        greatest = ids.last
        ids = ids.after(state(state_id, fields) for state_id, fields in version.items())
        now: dict[tuple[str, ...], int] = {}
        for state_id, fields in ids.fields.items():
            assert [f.meaning for f in fields] == sorted(version[state_id])
            for found in fields:
                what = (state_id, found.table, found.part, found.meaning, found.type)
                assert meant.setdefault(found.id, what) == what
                now[what] = found.id
                if what in there:
                    assert found.id == there[what]  # it was kept
                else:
                    assert found.id > greatest  # it is new, though there may have been one like it
        there = now
        assert ids.last == max([greatest, *now.values()])


def test_manifests_carry_ids_identities_and_the_sql_on(tmp_path: Path) -> None:
    plan = window_plan(TUMBLE)
    identity = {"version": 1, "of": ["rows", {"a": 1}]}
    plan = replace(plan, states=(replace(plan.states[0], identity=json.dumps(identity)),))
    world = World(tmp_path, EVENTS, program=plan)
    world.run(max_epochs=1, sql="SELECT 1")
    with pytest.raises(Crash):
        world.run(sql="SELECT 1", faults=crash_at("prepared", 2))
    changed = replace(plan, options=replace(plan.options, target_epoch_us=1))
    world.run(shards=3, sql="SELECT 2", max_epochs=1, plan=changed)
    found = manifests(world.state)
    assert [m["void"] for m in found.values()] == [False, True, False]
    [stored] = {json.dumps(m["states"][0]["fields"]) for m in found.values()}
    fields = json.loads(stored)
    assert [field[0] for field in fields] == list(range(1, len(fields) + 1))
    assert [0, *fields[0][1:]] == [0, "acc", "key", "k", "VARCHAR"]
    assert {m["last_field_id"] for m in found.values()} == {len(fields)}
    assert all(m["states"][0]["identity"] == identity for m in found.values())
    texts = [(world.state / "plans" / f"{m['sql']}.sql").read_text() for m in found.values()]
    assert texts == ["SELECT 1", "SELECT 1", "SELECT 2"]
    # What an epoch was given up with was swept before a manifest named it, and has to be there again.
    assert all((world.state / "plans" / f"{m['plan']}.json").exists() for m in found.values())
    world.run(sql="SELECT 2")
    assert world.visible() == tumbling(EVENTS)
    assert len(list((world.state / "plans").glob("*.sql"))) == 1  # what no manifest names is swept


def test_the_identity_of_a_state_is_no_part_of_its_bytes() -> None:
    one = state("s", {"a": BIGINT})
    reported = replace(one, identity='{"version": 1}')
    assert one == reported
    assert "identity" not in reported.to_json()
    assert one.schema_id == reported.schema_id
