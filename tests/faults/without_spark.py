"""The command `sqlstream` whose runs do their tasks in this process: `python -m tests.faults.without_spark run p.sql`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlstream.cli.main import main
from sqlstream.runtime.spark import on_demand
from sqlstream.runtime.tasks.local_runner import InProcessRunner


class Here(InProcessRunner):
    """Takes the place of Spark."""

    def __init__(
        self,
        master: str,
        conf: Mapping[str, str] | None = None,
        *,
        on_start: Callable[[], None],
        on_wait: Callable[[str], None],
    ) -> None:
        super().__init__(2)

    def kill(self) -> None:
        """Nothing was started."""

    def close(self) -> None:
        """Nothing was started."""


if __name__ == "__main__":
    on_demand.SparkOnDemand = Here  # type: ignore[assignment,misc]
    main()
