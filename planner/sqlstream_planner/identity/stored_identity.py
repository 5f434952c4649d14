"""The identity of a state as its schema keeps it, read back."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlstream_planner.identity.form import Data, from_json

#: An edit asks for each identity some twenty times; reading one takes 0.5 ms.
_MOST_KEPT = 256


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """What `StateIdentity.to_json` wrote: `roots` are its rows, keys, attributes and the meanings of its tables' fields.

    `operator` and `id` are as there.
    """

    version: int
    id: str
    operator: str
    roots: Mapping[str, Data]

    @property
    def attributes(self) -> Mapping[str, Data]:
        """What is compared apart from the core."""
        found = self.roots["attributes"]
        assert isinstance(found, Mapping)
        return found


@functools.lru_cache(_MOST_KEPT)
def read_identity(text: str) -> StoredIdentity:
    """The identity that a schema has as text (`StateSchema.identity`). Raises ValueError and KeyError for anything else."""
    written = json.loads(text)
    roots = from_json({"forms": written["forms"], "roots": written["roots"]})
    return StoredIdentity(written["version"], written["id"], written["operator"], MappingProxyType(roots))
