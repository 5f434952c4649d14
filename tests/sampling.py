"""Which cases of a test that is marked `sampled` are run: every so manieth, and of a grid every value of every parameter.

Of a grid whose values another test has all of, `each_value=False` takes no more than every so manieth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest

#: What a case has in each `parametrize` of its test, and of each fixture with `params`.
Case = tuple[str, ...]


def case_of(item: pytest.Item) -> Case:
    """Its values: one text for each `parametrize`, and for each fixture that has several."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ()
    params = dict(callspec.params)
    found = []
    for marker in item.iter_markers("parametrize"):
        names = marker.args[0]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        found.append(repr([params.pop(name, None) for name in names]))
    return (*found, *(repr(params[name]) for name in sorted(params)))


def chosen(cases: Sequence[Case], every: int, *, each_value: bool = True) -> set[int]:
    """The numbers of the cases to run.

    Of a list every so manieth. Of a grid as many, but with `each_value` each value at least once; first come those with
    values that no other has, of those that are as good for this the one with most pairs of values that no other has, and
    then with those values that were seldom taken.

    >>> sorted(chosen([("a",), ("b",), ("c",), ("d",), ("e",)], 2))
    [0, 3, 4]
    >>> grid = [(x, y) for x in "ab" for y in "123"]
    >>> [grid[number] for number in sorted(chosen(grid, 6))]
    [('a', '1'), ('a', '3'), ('b', '2')]
    >>> [grid[number] for number in sorted(chosen(grid, 3, each_value=False))]
    [('a', '1'), ('b', '2')]
    """
    # What all have in common is no parameter.
    varied = [values for values in zip(*cases, strict=True) if len({*values}) > 1]
    if len(varied) < 2:
        # A step to the side in each round, as cases come in groups.
        return {number for number in range(len(cases)) if (number + number // every) % every == 0}
    parts = [{*enumerate(case)} for case in zip(*varied, strict=True)]
    pairs = [{*combinations(sorted(part), 2)} for part in parts]
    values_left = set[tuple[int, str]]().union(*parts)
    pairs_left = set[tuple[tuple[int, str], tuple[int, str]]]().union(*pairs)
    left = set(range(len(cases)))
    times = Counter[tuple[int, str]]()
    found: set[int] = set()
    while left and ((each_value and values_left) or len(found) < -(-len(cases) // every)):
        best = max(
            left,
            key=lambda n: (
                len(parts[n] & values_left),
                len(pairs[n] & pairs_left),
                -sum(times[value] for value in parts[n]),
                -n,
            ),
        )
        left.remove(best)
        found.add(best)
        times.update(parts[best])
        values_left -= parts[best]
        pairs_left -= pairs[best]
    return found
