"""What a path of Delta tables may be."""

from __future__ import annotations

_UNITY = "uc://"


def wrong_path(text: str) -> str | None:
    """What is wanted instead of a path; None: it is one.

    >>> wrong_path("s3://lake/orders")
    >>> wrong_path(" ")
    'a folder or a URI'
    """
    if text.strip().lower().startswith(_UNITY):
        return (
            "the table's folder or its URI, which Unity Catalog tells as `storage_location`: "
            "names of Unity Catalog are not looked up"
        )
    return None if text.strip() else "a folder or a URI"
