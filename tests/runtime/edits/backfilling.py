"""Backfills without Spark: a pipeline runs for some epochs, then another query's states are computed over what it read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.history.backfill import Backfilled, backfill
from sqlstream.runtime.loop.program import LoopSettings, Program
from sqlstream.runtime.loop.recovery import program_fingerprint
from sqlstream.runtime.loop.source_positions import go_on, own_folders
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.storage.field_ids import FieldIds
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest, RunInfo, StateVersions
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.pipeline import Planned
from tests.properties.in_process import run_here

RUN = RunInfo("run", "here", 1, "2026-01-01T00:00:00+00:00")
SHARDS = 2


@dataclass
class World:
    """A folder with tables, pipelines over them, and a state directory; `tables` is SQL that declares the sources."""

    folder: Path
    tables: str
    shards: int = SHARDS
    planned: dict[str, Planned] = field(default_factory=dict)

    def lines(self, file: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows as a file of JSON lines."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))

    def plan(self, query: str) -> Planned:
        """A pipeline that writes what `query` gives to `out`, or the statements if there are several."""
        if query not in self.planned:
            text = query if ";" in query else f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};"
            file = self.folder / f"{len(self.planned)}.sql"
            file.write_text(f"{self.tables}\n{text}\n")
            self.planned[query] = plan_file(file)
        return self.planned[query]

    def run(self, query: str, *, state: str = "state", **options: Any) -> Manifest:
        """Run a query for some epochs; the manifest that it ends with."""
        run_here(self.plan(query), self.folder, state=state, parallelism=self.shards, **options)
        return self.last(state)

    def last(self, state: str = "state") -> Manifest:
        journal = Journal(self.store(state))
        return journal.manifest(journal.epochs()[1][-1])

    def store(self, state: str = "state") -> CheckpointStore:
        return CheckpointStore(self.folder / state, sync=False)

    def program(self, query: str, state: str = "state") -> Program:
        """The edited program, on the state directory of the former one."""
        plan = self.plan(query).physical
        store, last = self.store(state), self.last(state)
        folders = own_folders(go_on(last.sources, plan.sources), plan.sources)
        context = ConnectorContext(store, str(self.folder))
        return Program(
            plan=plan,
            text=plan_json.to_text(plan).encode(),
            fingerprint=program_fingerprint(plan),
            sources={
                spec.name: REGISTERED.source(spec, replace(context, folder=folders[spec.name]))
                for spec in plan.sources
            },
            source_folders=folders,
            sinks={},
            former_sinks={},
        )

    def settings(self, **options: Any) -> LoopSettings:
        cache = self.folder / "cache"
        cache.mkdir(exist_ok=True)
        return LoopSettings(
            parallelism=self.shards, base_dir=str(self.folder), local_dir=str(cache), poll_s=0.0, **options
        )

    def backfill(self, query: str, *, states: Sequence[str] | None = None, **options: Any) -> Backfilled:
        """Backfill all states of a query, or these."""
        found = self.try_backfill(query, states=states, **options)
        assert found is not None
        return found

    def try_backfill(
        self,
        query: str,
        *,
        states: Sequence[str] | None = None,
        state: str = "state",
        settings: LoopSettings | None = None,
        runner: Any = None,
        **options: Any,
    ) -> Backfilled | None:
        program = self.program(query, state)
        return backfill(
            program,
            states=[s.state_id for s in program.plan.states] if states is None else states,
            until=self.last(state),
            store=self.store(state),
            runner=runner or InProcessRunner(2),
            settings=settings or self.settings(),
            run=RUN,
            **{"stop": StopFlag(), **options},
        )

    def adopt(self, query: str, made: Backfilled, state: str = "state") -> None:
        """Let the query go on with what was backfilled, in this state directory, as if it began there.

        All of its sinks get their whole answer from the state, as those of a run that starts from a savepoint do; nothing
        if it is not there for all of them.
        """
        program, journal, last = self.program(query, state), Journal(self.store(state)), self.last(state)
        fields = FieldIds({}).after(program.plan.states)
        states = tuple(
            StateVersions(
                schema.state_id,
                schema.schema_id,
                tuple(shard.to_json() for shard in made.versions[schema.state_id]),
                fields.fields[schema.state_id],
                json.loads(schema.identity) if schema.identity else None,
            )
            for schema in program.plan.states
        )
        given = not any(missing_answers(program.plan, sink.name) for sink in program.plan.sinks)
        void = last.carried_on(last.epoch + 1, RUN, previous=0)
        adopted = replace(
            void,
            fingerprint=program.fingerprint,
            plan_digest=journal.put_physical_plan(program.text),
            sources=tuple(made.sources[spec.name] for spec in program.plan.sources),
            states=states,
            origin="a backfill" if given else "",
        )
        assert journal.publish(adopted)

    def tables_of(
        self, plan: PhysicalPlan, versions: Mapping[str, Sequence[ShardVersion]], state: str = "state"
    ) -> dict[str, list[Any]]:
        """All rows of some states, by state and table, as they are decoded."""
        found: dict[str, list[Any]] = {}
        for schema in plan.states:
            if schema.state_id not in versions:
                continue
            for shard, version in enumerate(versions[schema.state_id]):
                opened = ShardStore.open(
                    schema,
                    shard,
                    len(versions[schema.state_id]),
                    plan.options.max_parallelism,
                    version,
                    checkpoint=self.store(state),
                    local_dir=self.folder / "look",
                    epoch=version.version + 1,
                )
                with opened as store:
                    for table in schema.tables:
                        name = f"{schema.state_id} {schema.operator} {table.name}"
                        found.setdefault(name, []).extend(shown(store.scan_all(table.name)))
        return {name: sorted(rows, key=repr) for name, rows in found.items()}

    def kept(self, state: str = "state") -> dict[str, bytes]:
        """All files of a state directory but those of backfills."""
        folder = self.folder / state
        files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
        return {name: file.read_bytes() for name, file in files.items() if not name.startswith("backfills/")}


def shown(table: pa.Table) -> list[Any]:
    rows: list[Any] = table.to_pylist()
    return rows


def versions_of(manifest: Manifest) -> dict[str, tuple[ShardVersion, ...]]:
    """The versions that a manifest names."""
    return {
        state.state_id: tuple(ShardVersion.from_json(shard) for shard in state.shards)
        for state in manifest.states
    }
