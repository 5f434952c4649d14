"""JSON files that say what they are: kind, format version, and a checksum of themselves.

A damaged or foreign file is found when it is read and never believed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

FORMAT = 2


class DamagedFileError(Exception):
    """A file of the journal is not what was written; `what` says how it is seen."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what


def encode(kind: str, body: Mapping[str, Any]) -> bytes:
    """A JSON file with its kind, format version and checksum; one line per field."""
    content = {"kind": kind, "format": FORMAT, **body}
    content["checksum"] = _checksum(content)
    # With an indent, json falls back to its encoder in Python, which was a tenth of the CPU of a small epoch.
    lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
    return "\n".join(["{", ",\n".join(lines), "}", ""]).encode()


def decode(kind: str, path: str, data: bytes) -> dict[str, Any]:
    """Read what `encode` wrote. Raises DamagedFileError for anything else."""
    try:
        content = json.loads(data)
    except ValueError:
        raise DamagedFileError(path, f"is truncated or not JSON ({len(data)} bytes)") from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        raise DamagedFileError(path, f"is no {kind} file")
    if content.get("format") != FORMAT:
        raise DamagedFileError(
            path, f"has format {content.get('format')}; this version reads format {FORMAT}"
        )
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content):
        raise DamagedFileError(path, "has another content than its checksum says")
    return content


def check(path: str, data: bytes) -> None:
    """Compare a file of any kind with its checksum. Raises DamagedFileError for anything that `encode` did not write."""
    kind = None
    with suppress(ValueError, AttributeError):
        kind = json.loads(data).get("kind")
    decode(str(kind), path, data)


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
