"""What is wrong with regular expressions that stand in options of formats."""

from __future__ import annotations


def wrong_re2_pattern(text: str) -> str | None:
    """What is wrong with a regular expression for RE2, DuckDB's library for them; None: nothing is."""
    import pyarrow as pa  # planning a file that has no such option doesn't load it
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), text)
    except pa.ArrowInvalid:
        return "a regular expression, without look-around or references"
    return None
