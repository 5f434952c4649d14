"""Plans and manifests read back as they were written, and never if a byte of them has changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream.storage.field_ids import StoredField
from sqlstream.storage.manifest import (
    CommittedPart,
    DeadLetterTally,
    EpochPlan,
    Manifest,
    PlannedSource,
    PlannedSplit,
    RowsCap,
    RunInfo,
    SourceState,
    StateVersions,
)
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.state.staged_rows import StagedFile, StagedRows

RUN = RunInfo("ab12", "host", 17, "2026-01-01T00:00:00+00:00")
PLAN = EpochPlan(
    epoch=42,
    parent=41,
    lineage="ff",
    run=RUN,
    fingerprint="f",
    parallelism=3,
    sources=(
        PlannedSource(
            "bid",
            "filesystem",
            {"files": {"ä.json": 3}},
            {"files": {"ä.json": 9}},
            (PlannedSplit({"from": 3, "to": 9}, 6, None),),
            True,
            Watermarks(WATERMARK_MIN, -5, WATERMARK_MAX),
        ),
    ),
)
MANIFEST = Manifest(
    epoch=42,
    parent=41,
    lineage="ff",
    run=RUN,
    fingerprint="f",
    plan_digest="d",
    parallelism=3,
    max_parallelism=128,
    sources=(
        SourceState("bid", "filesystem", {"files": {}}, True, 7, WATERMARK_MAX, 9, "who", "sources/bid"),
    ),
    states=(
        StateVersions(
            "w",
            "s",
            ({"version": 1},),
            (StoredField(3, "acc", "value", "count(*)", "BIGINT"),),
            {"form": [1]},
        ),
    ),
    rows_cap=RowsCap(100, 3),
    sql_digest="e",
    last_field_id=7,
    tally=DeadLetterTally(5, 100, 4),
    sinks={
        "out": (CommittedPart(3, {"file": "x"}),),
        "table": (
            CommittedPart(2, {}, StagedRows(2, inline=b"\xff\x00")),
            CommittedPart(
                9, {}, StagedRows(9, (StagedFile("staged/a", 5, 70), StagedFile("staged/b", 4, 60)))
            ),
        ),
    },
    rows={"bid": 6},
    dead_letters={"late": 2},
    dead_letter_files=("staging/x",),
    metrics={"closed": 1},
    previous=40,
)


def test_plans_and_manifests_read_back_as_written() -> None:
    assert EpochPlan.from_bytes("x", PLAN.to_bytes()) == PLAN
    assert Manifest.from_bytes("x", MANIFEST.to_bytes()) == MANIFEST
    assert PLAN.reads


def test_a_manifest_names_the_files_with_staged_rows() -> None:
    assert MANIFEST.staged_files == {"staged/a", "staged/b"}


@given(st.data())
def test_a_changed_or_truncated_file_is_never_believed(data: st.DataObject) -> None:
    content = bytearray(MANIFEST.to_bytes())
    at = data.draw(st.integers(0, len(content) - 2))
    if data.draw(st.booleans()):
        content = content[:at]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    try:
        found = Manifest.from_bytes("epochs/x", bytes(content))
    except DamagedFileError:
        return
    assert found == MANIFEST  # only white space has changed


def test_another_format_or_kind_is_named() -> None:
    content = json.loads(MANIFEST.to_bytes())
    with pytest.raises(DamagedFileError, match="has format 9"):
        Manifest.from_bytes("x", json.dumps({**content, "format": 9}).encode())
    with pytest.raises(DamagedFileError, match="is no epoch plan file"):
        EpochPlan.from_bytes("x", MANIFEST.to_bytes())


def test_manifests_of_older_versions_have_no_tally() -> None:
    content = decode("epoch manifest", "m", MANIFEST.to_bytes())
    del content["tally"], content["kind"], content["format"]
    assert Manifest.from_bytes("m", encode("epoch manifest", content)).tally == DeadLetterTally()
