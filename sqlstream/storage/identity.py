"""Who a state directory is, to the sinks that it writes: a random name, made when it is first needed."""

from __future__ import annotations

import json
import re
import uuid

from sqlstream.storage.checked_json import decode, encode
from sqlstream.storage.journal import Journal
from sqlstream_operators.state.checkpoint_store import CheckpointStore

NAME = "sinks/identity.json"
_KIND = "state directory"
_ID = re.compile(r"[0-9a-f]{32}")


def identity(store: CheckpointStore) -> str:
    """The name of the state directory in `store`, 32 hex digits. Raises DamagedFileError."""
    if not store.exists(NAME):
        store.put(NAME, encode(_KIND, {"id": uuid.uuid4().hex}))
    data = store.get(NAME)
    found = _unchecked(data) or decode(_KIND, NAME, data)["id"]
    return str(found)


def is_lost(store: CheckpointStore) -> bool:
    """Whether a state directory has given rows to its sinks, and has no name: none of them needed it, or it is gone.

    One that begins with a savepoint has epochs, and has given nothing yet.
    """
    if store.exists(NAME):
        return False
    journal = Journal(store)
    _, manifests = journal.epochs()
    if not manifests:
        return False
    last = journal.manifest(manifests[-1])
    return not last.void or last.parent is not None


def _unchecked(data: bytes) -> str | None:
    """The name in a file as they were before they had a checksum."""
    try:
        content = json.loads(data)
    except ValueError:
        return None
    if isinstance(content, dict) and list(content) == ["id"] and _ID.fullmatch(str(content["id"])):
        return str(content["id"])
    return None
