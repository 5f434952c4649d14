"""SQL over the state of pipelines, a few queries at a time, within bounds of rows, time, memory and disk."""

from __future__ import annotations

import threading
from typing import Any

from sqlstream.state.query import Bounds
from sqlstream.ui.pipelines import Pipeline
from sqlstream.ui.query_process import QueryProcess, Question
from sqlstream_operators.duck.memory import available

MOST_ROWS, MOST_CELL = 1000, 2000
#: How long a query may take, seconds, and how many run at a time.
LONGEST_S, AT_A_TIME = 20.0, 2
#: What all queries may use together, bytes: they run beside a pipeline.
_MOST_MEMORY = 1 << 30
#: What each may leave on disk meanwhile, bytes.
_MOST_SPILLED = 1 << 30


class Queries:
    """Runs queries of state in processes that are kept for the next ones."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._bounds = Bounds(min(available() // 8, _MOST_MEMORY) // AT_A_TIME, _MOST_SPILLED, MOST_CELL)
        self._slots = threading.BoundedSemaphore(AT_A_TIME)
        self._idle: list[QueryProcess] = []
        self._lock = threading.Lock()

    def run(self, pipeline: Pipeline, sql: str, limit: int = MOST_ROWS) -> dict[str, Any]:
        """The first rows of a SELECT over the last epoch's state: `columns`, `rows` of texts, whether there are `more`.

        Raises DiagnosticError: STA022 to STA025, and UIS003 for one that takes too long.
        """
        question = Question(pipeline.store, sql, limit, self._longest_s, self._bounds)
        with self._slots:
            while True:
                process = self._taken()
                try:
                    answer = process.ask(question)
                finally:
                    self._give_back(process)
                if answer is not None:
                    return answer

    def close(self) -> None:
        """End the processes that wait."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def _taken(self) -> QueryProcess:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.lives:
                    return process
            return QueryProcess()

    def _give_back(self, process: QueryProcess) -> None:
        with self._lock:
            if process.lives and len(self._idle) < AT_A_TIME:
                self._idle.append(process)
                return
        process.close()
