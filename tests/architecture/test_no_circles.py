"""No two modules import each other, in however many steps, and be it inside of functions."""

from __future__ import annotations

import grimp

PACKAGES = ("sqlstream", "sqlstream_planner", "sqlstream_operators")


def test_no_module_is_needed_by_what_it_needs() -> None:
    """What is imported for types alone is not needed by anybody who runs it."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    assert (
        circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []
    )


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def circles(imported: dict[str, set[str]]) -> list[list[str]]:
    """The modules from which imports lead back to them, those of one circle together."""
    reached = {module: reachable(module, imported) for module in imported}
    found = {frozenset(other for other in reached[module] if module in reached[other]) for module in imported}
    return sorted(sorted(circle) for circle in found if circle)


def reachable(module: str, imported: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [*imported[module]]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += imported[one]
    return found
