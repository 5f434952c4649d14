"""What is wrong with regular expressions that stand in options."""

from __future__ import annotations

import re


def wrong_path_pattern(text: str | None) -> str | None:
    """What is wrong with a regular expression for paths; None: nothing is.

    >>> wrong_path_pattern(".*"), wrong_path_pattern("*.csv")
    (None, 'a regular expression (nothing to repeat at position 0); any text is .*')
    """
    try:
        re.compile(text or "")
    except re.error as error:
        return f"a regular expression ({error}); any text is .*"
    return None


def wrong_re2_pattern(text: str) -> str | None:
    """What is wrong with a regular expression for RE2, DuckDB's library for them; None: nothing is."""
    import pyarrow as pa  # planning a file that has no such option doesn't load it
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), text)
    except pa.ArrowInvalid:
        return "a regular expression, without look-around or references"
    return None
