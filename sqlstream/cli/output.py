"""Standard output and standard error as a command writes them: closed, full, without a reader, of another encoding."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, cast


class OutputError(Exception):
    """Standard output can't be written. No OSError: nothing is wrong with a file of the pipeline, and no restart helps."""

    def __init__(self, error: OSError) -> None:
        self.reader_gone = error.errno == errno.EPIPE
        super().__init__(error.strerror or str(error))


class Output(io.TextIOWrapper):
    """Standard output: what it can't take is an OutputError, a character that it does not have is escaped."""

    def write(self, text: str, /) -> int:
        """Write text; raises OutputError."""
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(error) from error

    def flush(self) -> None:
        """Write what is buffered; raises OutputError."""
        try:
            super().flush()
        except OSError as error:
            raise OutputError(error) from error


class Messages(Output):
    """Standard error: a run does not end because a disk takes no more of its output. Without a reader it does."""

    def write(self, text: str, /) -> int:
        """Write text; raises OutputError if whoever read it is gone."""
        try:
            return super().write(text)
        except OutputError as error:
            if error.reader_gone:
                raise
            return len(text)

    def flush(self) -> None:
        """Write what is buffered; raises OutputError if whoever read it is gone."""
        try:
            super().flush()
        except OutputError as error:
            if error.reader_gone:
                raise


def open_streams() -> None:
    """Put standard output and error in order before anything else opens a file.

    A file descriptor that is closed is opened on nothing: else a file of the state would get its number, and
    whatever a library or Java prints would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    sys.stdout = _wrapped(sys.stdout, Output)
    sys.stderr = _wrapped(sys.stderr, Messages)


def drop_output() -> None:
    """Send to nothing what is still to be written: nobody takes it, and the interpreter would complain at its end."""
    for number in (1, 2):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, number)
        os.close(nothing)


def json_line(document: Mapping[str, Any], stream: TextIO | None = None) -> str:
    """A JSON object on one line, without its end; in ASCII for a stream that can't take every character.

    >>> [json_line({"a": "ä"}, io.TextIOWrapper(io.BytesIO(), encoding)) for encoding in ("UTF-8", "ascii")]
    ['{"a": "ä"}', '{"a": "\\\\u00e4"}']
    """
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    return json.dumps(document, ensure_ascii=encoding.lower().replace("-", "") != "utf8")


def _wrapped(stream: TextIO | None, kind: type[Output]) -> TextIO:
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    return cast(
        TextIO,
        kind(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        ),
    )
