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
