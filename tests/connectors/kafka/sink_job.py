"""Jobs whose sink writes a topic, and the rows that are there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlstream_operators.plan.spec import Column, SinkSpec
from sqlstream_operators.plan.types import parse_type
from tests.connectors.kafka.topics import Topics
from tests.connectors.sink_job import SinkJob


def new_job(
    made: list[SinkJob],
    tmp_path: Path,
    topics: Topics,
    topic: str,
    columns: Mapping[str, str] | None = None,
    *,
    key: Sequence[str] = (),
    upsert: bool = False,
    changelog: str = "append",
    state: str = "state",
    unique: tuple[str, ...] | None = None,
    metadata: tuple[tuple[str, str], ...] = (),
    **options: str,
) -> SinkJob:
    given = {"topic": topic, "properties.bootstrap.servers": topics.bootstrap}
    if upsert:
        given |= {"key.format": "json", "value.format": "json"}
    elif "value.format" not in options:
        given |= {"format": "json"}
    given |= {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    schema = tuple(
        Column(name, parse_type(text)) for name, text in (columns or {"k": "BIGINT", "v": "VARCHAR"}).items()
    )
    spec = SinkSpec(
        "out",
        "upsert-kafka" if upsert else "kafka",
        given,
        schema,
        primary_key=tuple(key),
        changelog=changelog,
        key=unique,
        metadata=metadata,
    )
    job = SinkJob(tmp_path, spec, state=state)
    made.append(job)
    return job


def values(topics: Topics, topic: str) -> list[Any]:
    return [json.loads(value) for value in topics.values(topic) if value is not None]
