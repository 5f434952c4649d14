"""What a run is to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlstream.connectors.api import (
    ConnectorContext,
    Dimension,
    Orders,
    Sink,
    SinkWriter,
    Source,
    SparkTables,
)
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.coordination.lease import BEAT_S
from sqlstream.runtime.edits.deciding import EditedProgram
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.edits.sinks.sink_edit import NOWHERE
from sqlstream.runtime.edits.sources.moved_sources import Moves
from sqlstream.runtime.loop.faults import Faults, no_faults
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.restarts import Restart, RestartStrategy
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.storage.garbage import RETAINED
from sqlstream_operators.plan.spec import DimensionSpec, PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic, Span, Written
from sqlstream_planner.physical.state_node import NO_NODES, StateNodes


class DriverConnectors(Protocol):
    """Makes the driver's halves of connectors."""

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        """The driver's half of a source."""
        ...

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        """The driver's half of a sink."""
        ...

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> Dimension:
        """The driver's half of a table that lookup joins read."""
        ...


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A plan to run on a state directory: how, with what beside it, and which callbacks get what.

    `secrets` are what references in the plan stand for (`Planned.secrets`); they are kept nowhere.
    `state_dir` is a path or a URI; a run goes on where the last one on it stopped. `parallelism` is the
    number of shards (default: the plan's option, else that of the last run, else the cores). Without a
    `runner` Spark is started on `master` with `conf` for the first epoch that needs it, and stopped at the end.
    `local_dir` is where machines cache state (default: under the temporary folder). With `handle_signals`, Ctrl-C and
    SIGTERM set `stop`, and a second one ends the run at once (Interrupted). `on_phase` gets in words what takes
    its time before the first epoch. `restart` goes before the strategy that the plan asks for; `on_restart` gets
    of each. `on_lag` gets before each epoch how many rows wait by source (None: not known), also before one that fails.
    `sql` is the text that the plan was made of, rendered and without secrets: it is kept with the manifests. `written`
    says where in the user's file the sinks stand, `place_of` where an expression does that fails (`Planned.place_of`),
    `origin` is the savepoint that a new state directory begins with, `nodes` are what the plan's states were made of
    (`Planned.state_nodes`): without them, edits can't derive a state from
    another. `accept` is what may begin in the middle of the input (`fresh:<operator or sink>`, `fresh:all`), and which
    tables may be altered (`alter:<sink>`). `rewrite` are sinks whose empty places get all that the query has given so far.
    `orders` what to do about single files of the sources, `moved` which sources' data is elsewhere now (the plan was made
    with it); `tell` takes warnings about what the run meets.
    `wall_clock` (seconds since 1970) is what state with a time to live goes by; each epoch's is in its plan. With `drain`,
    as if the plan's options said so, all that is open closes at the end for good, and watched sources end, too. `name` is
    what the run's status calls the pipeline. `writer` makes what writes the rows of history that an edit has for a sink, in
    the driver.
    """

    plan: PhysicalPlan
    state_dir: str | Path
    secrets: Secrets | None = None
    parallelism: int | None = None
    master: str = "local[*]"
    conf: Mapping[str, str] | None = None
    max_rows_per_epoch: int | None = None
    on_epoch: Callable[[EpochReport], None] = lambda report: None
    on_phase: Callable[[str], None] = lambda text: None
    on_restart: Callable[[Restart], None] = lambda restart: None
    on_lag: Callable[[Mapping[str, int | None]], None] = lambda lag: None
    restart: RestartStrategy | None = None
    stop: StopFlag | None = None
    handle_signals: bool = False
    base_dir: str | Path = "."
    local_dir: str | Path | None = None
    runner: JobRunner | None = None
    connectors: DriverConnectors | None = None
    writer: Callable[[SinkSpec, ConnectorContext], SinkWriter] = REGISTERED.writer
    retained_epochs: int = RETAINED
    max_epochs: int | None = None
    poll_s: float | None = None
    faults: Faults = no_faults
    lease_beat_s: float = BEAT_S
    sync: bool = True
    wall_clock: Callable[[], float] = time.time
    sql: str | None = None
    origin: Origin | None = None
    nodes: StateNodes = field(default_factory=lambda: NO_NODES)
    accept: Collection[str] = ()
    rewrite: Collection[str] = ()
    written: Mapping[str, Written] = field(default_factory=lambda: NOWHERE)
    orders: Orders | None = None
    moved: Moves | None = None
    tell: Callable[[Diagnostic], None] = lambda warning: None
    drain: bool = False
    place_of: Callable[[str], Span | None] = lambda sql: None
    name: str = ""

    @property
    def edited(self) -> EditedProgram:
        """What is to go on with the state."""
        return EditedProgram(self.plan, self.sql, self.written, self.nodes, self.accept)

    @property
    def uri(self) -> str:
        """The state directory, where it is whatever the working directory is."""
        given = str(self.state_dir)
        return given if "://" in given else str(Path(given).absolute())

    @property
    def base(self) -> str:
        """What relative paths of connectors refer to."""
        return str(Path(self.base_dir).absolute())

    @property
    def known_secrets(self) -> Secrets:
        """The secrets, none if there are none."""
        return self.secrets or Secrets()

    @property
    def driver_connectors(self) -> DriverConnectors:
        """Who makes the driver's halves of connectors."""
        return self.connectors or REGISTERED

    @property
    def spark(self) -> SparkTables:
        """What reads tables with the Spark of the runner, or starts it."""
        from sqlstream.runtime.spark.tables import tables_of

        return tables_of(self.runner, self.master, self.conf)

    def source_of(self, spec: SourceSpec, store: CheckpointStore, folder: str) -> Source:
        """The driver's half of a source that has this folder of a store for itself."""
        context = ConnectorContext(store, self.base, folder=folder, spark=self.spark)
        return self.driver_connectors.source(self.known_secrets.resolved(spec), context)

    def sink_of(self, spec: SinkSpec, store: CheckpointStore, known_as: str) -> Sink:
        """The driver's half of a sink that its target knows by a name."""
        context = ConnectorContext(store, self.base, known_as=known_as)
        return self.driver_connectors.sink(self.known_secrets.resolved(spec), context)
