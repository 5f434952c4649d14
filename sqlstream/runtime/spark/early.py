"""A JVM that is begun before it is known that a run needs one, while its file is planned."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.runtime.spark.jvm import Jvm
from sqlstream.runtime.spark.masters import check_master, is_local
from sqlstream.runtime.spark.session import begin
from sqlstream_planner.diagnostics import DiagnosticError


class EarlyJvm:
    """The JVM for `master` and the user's settings `conf`, to be taken once, or ended by `close`.

    What is wrong with Java or the master is told when Spark is needed; then, and for a master elsewhere, there is none.
    """

    def __init__(self, master: str, conf: Mapping[str, str]) -> None:
        self._jvm: Jvm | None = None
        try:
            check_master(master)
            if is_local(master):
                self._jvm = begin(master, conf)
        except (DiagnosticError, OSError):
            return

    def take(self) -> Jvm | None:
        """The JVM, whoever takes it sees to its end; None the second time."""
        jvm, self._jvm = self._jvm, None
        return jvm

    def close(self) -> None:
        """End it, if nobody has taken it."""
        jvm = self.take()
        if jvm is not None:
            jvm.abandon()
