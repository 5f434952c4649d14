"""Where files of a Delta table are: in a folder for each partition, since Polars reads its values there, not in the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from sqlstream.connectors.filesystem.columns import DEFAULT_PARTITION

#: Names of columns that stand in a folder's name as they are, and in the log so that they are known again.
_NAME = re.compile(r"[A-Za-z0-9_.\u0080-\U0010ffff-]+")
#: Paths whose form in the log is known to be what Delta's library makes of them.
_KNOWN = re.compile(r"(?!/)[A-Za-z0-9_.=/%\u0080-\U0010ffff-]+")
#: How long a folder's name may be, in bytes: 255 on most disks.
_LONGEST = 240


def folder_of(values: Mapping[str, str | None]) -> str:
    """The folder of a partition, with a slash behind it; none (the table's own) where it can't have such a name.

    >>> folder_of({"day": "2024-05-06", "p": "a/b"})
    'day=2024-05-06/p=a%2Fb/'
    >>> folder_of({"p": None})
    'p=__HIVE_DEFAULT_PARTITION__/'
    >>> folder_of({"a b": "x"}), folder_of({})
    ('', '')
    """
    names = [f"{name}={_text(value)}" for name, value in values.items()]
    if any(not _NAME.fullmatch(name) for name in values) or any(len(n.encode()) > _LONGEST for n in names):
        return ""
    return "".join(f"{name}/" for name in names)


def path_of(logged: str) -> str | None:
    """The path of a file in the table's folder, by its path in the log; None where Delta's library may write that otherwise.

    >>> path_of("p=a%252Fb/1.parquet")
    'p=a%2Fb/1.parquet'
    >>> path_of("p=a%20b/1.parquet")
    """
    path = unquote(logged)
    return path if _KNOWN.fullmatch(path) and quote(path, safe="/=") == logged else None


def _text(value: str | None) -> str:
    return DEFAULT_PARTITION if value is None else quote(value, safe="")
