"""The pipelines that the dashboard shows, by their state directories."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlstream.runtime.loop.recovery import last_manifest, physical_plan
from sqlstream.state.overview import Overview, damaged, overview
from sqlstream.storage.epoch_history import History
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.state.checkpoint_store import CheckpointStore, local_path
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.text.masking import without_password

#: How long an answer about all pipelines is used again, seconds: so many times as long as it took, so that hundreds of
#: pipelines do not keep a processor busy, within these bounds.
FRESH_S, MOST_FRESH_S, FRESH_FACTOR = 1.0, 5.0, 20
_PLANS = 8

#: Finds the state directories there are now: their names, and where they are.
Places = Callable[[], Iterable[tuple[str, CheckpointStore]]]


@dataclass(slots=True)
class Pipeline:
    """A state directory: `id` stands for it in addresses, `name` is what it is called."""

    id: str
    name: str
    store: CheckpointStore
    history: History
    _plans: dict[str, PhysicalPlan] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def overview(self) -> Overview:
        """How it is now. Raises DiagnosticError (STA001) for a damaged manifest."""
        return overview(self.store, self.name)

    def last(self) -> Manifest | None:
        """The manifest of its last epoch, None before the first. Raises DiagnosticError (STA001)."""
        return last_manifest(Journal(self.store))

    def plan(self, manifest: Manifest) -> PhysicalPlan:
        """The physical plan of a manifest. Raises DiagnosticError (STA001) if it is missing or damaged."""
        with self._lock:
            if manifest.plan_digest in self._plans:
                return self._plans[manifest.plan_digest]
        found = physical_plan(Journal(self.store), manifest)
        with self._lock:
            while len(self._plans) >= _PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[manifest.plan_digest] = found
        return found

    def sql(self, manifest: Manifest) -> str | None:
        """The SQL of a manifest, rendered and without secrets; None if none was kept."""
        return None if manifest.sql_digest is None else Journal(self.store).sql(manifest.sql_digest)

    def begun(self) -> tuple[PhysicalPlan | None, str | None]:
        """The plan and the SQL of a run that has begun its first epoch and not committed it yet, as far as it was kept."""
        plan, sql = Journal(self.store).only_program()
        return None if plan is None else plan_json.from_text(plan.decode()), sql


class Pipelines:
    """All pipelines at the places that the dashboard was given; new ones are found as they come."""

    def __init__(self, places: Places, clock: Callable[[], float] = time.monotonic) -> None:
        self._places = places
        self._clock = clock
        self._known: dict[str, Pipeline] = {}
        self._lock = threading.Lock()
        self._answered: tuple[float, list[dict[str, Any]]] | None = None

    def all(self) -> list[Pipeline]:
        """All that are there now, in the order of their places. Raises DiagnosticError for a place that is not there."""
        found: list[tuple[str, str, CheckpointStore]] = []
        taken: set[str] = set()
        for name, store in self._places():
            short, where = name.rpartition("/")[2], _where(store)
            id_ = _id(short, where)
            if id_ in taken:  # of hundreds with one name, two may have the same short digest
                id_ = _id(short, where, 16)
            taken.add(id_)
            found.append((id_, name, store))
        with self._lock:
            self._known = {
                id_: self._known.get(id_) or Pipeline(id_, name, store, History(store))
                for id_, name, store in found
            }
            return list(self._known.values())

    def find(self, id_: str) -> Pipeline | None:
        """The pipeline that `id_` stands for, None if there is none."""
        with self._lock:
            if id_ in self._known:
                return self._known[id_]
        return next((one for one in self.all() if one.id == id_), None)

    def overviews(self) -> list[dict[str, Any]]:
        """How all of them are, as JSON; an answer is good for a second or some, however many ask."""
        began = self._clock()
        with self._lock:
            if self._answered is not None and began < self._answered[0]:
                return self._answered[1]
        found = [shown(one) for one in self.all()]
        now = self._clock()
        with self._lock:
            self._answered = (
                now + min(MOST_FRESH_S, max(FRESH_S, FRESH_FACTOR * (now - began))),
                found,
            )
        return found


def shown(pipeline: Pipeline) -> dict[str, Any]:
    """How a pipeline is, as JSON; one whose manifest is damaged says so."""
    try:
        found: Mapping[str, Any] = pipeline.overview().to_json()
    except DiagnosticError as error:
        found = damaged(pipeline.store, pipeline.name, error).to_json()
    return {**found, "id": pipeline.id, "state_dir": without_password(_where(pipeline.store))}


def _where(store: CheckpointStore) -> str:
    """Where a state directory is, wherever the dashboard was started."""
    local = local_path(store.uri)
    return store.uri if local is None else str(local.absolute())


def _id(name: str, uri: str, digits: int = 4) -> str:
    """What stands for a pipeline in an address: its name, and what tells it from others of that name.

    >>> _id("orders", "/data/a"), _id("eu/orders ü", "/data/b")
    ('orders-46d2', 'eu-orders-08ef')
    """
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-") or "pipeline"
    return f"{plain}-{hashlib.sha256(uri.encode()).hexdigest()[:digits]}"
