"""Places below a path or a URI, whose options stay at its end."""

from __future__ import annotations


def below(place: str, name: str) -> str:
    """What is called `name` in a folder.

    >>> below("s3://b/p/?scheme=http&endpoint_override=h:1", "up"), below("/a?b/", "c")
    ('s3://b/p/up?scheme=http&endpoint_override=h:1', '/a?b/c')
    """
    folder, mark, options = place.partition("?") if "://" in place else (place, "", "")
    return f"{folder.rstrip('/')}/{name}{mark}{options}"
