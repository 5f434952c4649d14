"""The state of a pipeline as relations, and SQL over them, within bounds of rows and of time."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any

from sqlstream.state.committed import find_committed
from sqlstream.state.query import Bounds, StateDatabase
from sqlstream.state.relations import Relation, relations_of
from sqlstream.ui.pipelines import Pipeline
from sqlstream_operators.duck.memory import available
from sqlstream_operators.errors import StateError
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

MOST_ROWS, MOST_CELL = 1000, 2000
#: How long a query may take, seconds, and how many run at a time.
LONGEST_S, AT_A_TIME = 20.0, 2
#: What all queries may use together, bytes: they run in a process of the pipeline's run, or beside it.
_MOST_MEMORY = 1 << 30
#: What each may leave on disk meanwhile, bytes.
_MOST_SPILLED = 1 << 30
_ATTEMPTS = 3


class Queries:
    """Runs queries of state, a few at a time."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._bounds = Bounds(min(available() // 8, _MOST_MEMORY) // AT_A_TIME, _MOST_SPILLED, MOST_CELL)
        self._slots = threading.BoundedSemaphore(AT_A_TIME)

    def run(self, pipeline: Pipeline, sql: str, limit: int = MOST_ROWS) -> dict[str, Any]:
        """The first rows of a SELECT over the last epoch's state: `columns`, `rows` of texts, whether there are `more`.

        Raises DiagnosticError: STA022 to STA025, and UIS003 for one that takes too long.
        """
        with self._slots:
            for attempt in range(_ATTEMPTS):
                committed = find_committed(pipeline.store)
                try:
                    with StateDatabase(committed, self._bounds) as database:
                        rows, columns = self._rows(database, sql, limit)
                except (StateError, FileNotFoundError):
                    # Collected meanwhile; the next epoch has what this one had.
                    if committed.is_there or attempt == _ATTEMPTS - 1:
                        raise
                    continue
                return {
                    "epoch": committed.manifest.epoch,
                    "columns": list(columns),
                    "rows": [list(row) for row in rows[:limit]],
                    "more": len(rows) > limit,
                }
        raise AssertionError  # the last attempt returns or raises

    def _rows(
        self, database: StateDatabase, sql: str, limit: int
    ) -> tuple[list[tuple[str | None, ...]], tuple[str, ...]]:
        late = threading.Event()

        def interrupt() -> None:
            late.set()
            database.interrupt()

        timer = threading.Timer(self._longest_s, interrupt)
        timer.daemon = True
        timer.start()
        try:
            result = database.query(sql)
            return list(islice(result.rows, limit + 1)), result.columns
        except DiagnosticError as error:
            if late.is_set():
                raise DiagnosticError(
                    Diagnostic(
                        "UIS003",
                        f"the query took more than {self._longest_s:g} s and was ended",
                        help="ask for some keys, or run it with `sqlstream state query`",
                    )
                ) from error
            raise
        finally:
            timer.cancel()


def relations(pipeline: Pipeline) -> list[dict[str, Any]]:
    """What can be selected from, with the operator's step that each is of."""
    manifest = pipeline.last()
    if manifest is None:
        return []
    return [_relation(one) for one in relations_of(pipeline.plan(manifest))]


def _relation(relation: Relation) -> dict[str, Any]:
    return {
        "name": str(relation),
        "node": f"op:{relation.step}",
        "kind": relation.kind,
        "key": list(relation.key.values()),
        "columns": [
            {
                "name": c.name,
                "type": str(c.type),
                "part": c.part,
                "meaning": c.meaning,
                "numeric": c.type.is_numeric,
            }
            for c in relation.columns
        ],
    }
