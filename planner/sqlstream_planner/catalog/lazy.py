"""Descriptors that are imported when a file names them: a file uses one or two connectors of many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Named(Protocol):
    """A descriptor: it has the name that SQL gives it."""

    @property
    def name(self) -> str:
        """How SQL calls it."""
        ...


_Named = TypeVar("_Named", bound=Named)


@dataclass(frozen=True, slots=True)
class Lazy(Generic[_Named]):
    """A descriptor by its name, and what imports it. Raises ValueError where it has another name."""

    name: str
    load: Callable[[], _Named]

    def __call__(self) -> _Named:
        """The descriptor itself."""
        found = self.load()
        if found.name != self.name:
            raise ValueError(f"{self.name} is registered, and calls itself {found.name}")
        return found


def loaded(one: _Named | Lazy[_Named]) -> _Named:
    """A descriptor that may still have to be imported."""
    return one() if isinstance(one, Lazy) else one


def checked_names(all_: tuple[Named, ...], what: str) -> tuple[str, ...]:
    """The names of all. Raises ValueError if two have one."""
    names = tuple(one.name for one in all_)
    if len(set(names)) != len(names):
        raise ValueError(f"two {what} have one name: {list(names)}")
    return names
