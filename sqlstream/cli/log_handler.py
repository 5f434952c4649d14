"""What libraries log, as events of a run's log."""

from __future__ import annotations

import logging
import traceback

from sqlstream.cli.log import ERROR, WARNING, Log


class LogHandler(logging.Handler):
    """Passes what a library logs on, from warnings on: the trace of an error is a field of the event."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        fields = {}
        if record.exc_info is not None and record.exc_info[1] is not None:
            fields["exception"] = "".join(traceback.format_exception(record.exc_info[1]))
        level = ERROR if record.levelno >= logging.ERROR else WARNING
        self._log.write(level, "dashboard", record.getMessage().rstrip(), **fields)
