"""How often state goes on over random chains of edits; the figures are printed by `python -m tests.edits.chains`."""

from __future__ import annotations

from collections import Counter

from tests.edits.chains import share, shares


def test_nothing_is_read_again_because_it_is_said_in_other_words() -> None:
    found = shares(25)
    assert sum(found["in other words"].values()) > 15
    assert share(found["in other words"]) >= 0.9
    assert share(sum(found.values(), Counter())) >= 0.5
