"""What every node of a plan has, and what is written once over all of them.

A node is a frozen dataclass. Its attributes are other nodes (its inputs), fields that it defines, expressions,
references to columns by id (`ColumnId`), and plain values. `expressions` and `with_expressions` find and replace the
expressions wherever they stand, so that walking, rewriting, comparing and printing need no code of a node's own
(as TreeNode does in DataFusion). Nodes are compared by identity: a plan is a DAG, and a node that two consumers
share is one object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from dataclasses import fields as attributes
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sqlglot import exp

from sqlstream_planner.logical.columns import ColumnId, Fields


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a node has, such as a call of an aggregate, in which expressions and references may stand."""


class Node:
    """A relation: rows with the columns `fields`, computed from those of `inputs`."""

    __slots__ = ()

    #: Whether it makes rows or values of its own, which identities count (the nesting depth); of an operator its stand-in
    #: says it. None: not defined.
    makes_own: ClassVar[bool | None] = None

    if TYPE_CHECKING:
        # Not real properties: a dataclass would take them for the defaults of attributes of these names.
        @property
        def inputs(self) -> tuple[Node, ...]:
            """The nodes whose rows it reads."""

        @property
        def fields(self) -> Fields:
            """Its columns."""

    def __repr__(self) -> str:
        """Short: what is below a node may be more than can be printed."""
        return f"{type(self).__name__}({', '.join(f.id for f in self.fields)})"

    def with_inputs(self, inputs: tuple[Node, ...]) -> Self:
        """The same node over other inputs; the node itself if they are the very same."""
        if all(a is b for a, b in zip(self.inputs, inputs, strict=True)):
            return self
        given = iter(inputs)

        def swap(value: Any) -> Any:
            if isinstance(value, Node):
                return next(given)
            if isinstance(value, tuple) and value and all(isinstance(v, Node) for v in value):
                return tuple(next(given) for _ in value)
            return value

        return self._with({name: swap(getattr(self, name)) for name in self._input_attributes()})

    def expressions(self) -> tuple[exp.Expr, ...]:
        """The expressions over columns of the inputs, in the order of the attributes."""
        return tuple(
            e
            for name in self.own_attributes()
            for e in _found(getattr(self, name), lambda v: isinstance(v, exp.Expr))
        )

    def references(self) -> tuple[ColumnId, ...]:
        """The columns of the inputs that are named by id, outside of expressions."""
        return tuple(
            r
            for name in self.own_attributes()
            for r in _found(getattr(self, name), lambda v: isinstance(v, ColumnId))
        )

    def with_expressions(self, change: Callable[[exp.Expr], exp.Expr]) -> Self:
        """The same node with each expression changed; the node itself if none was."""
        return self._changed(lambda v: change(v) if isinstance(v, exp.Expr) else v)

    def with_references(self, change: Callable[[ColumnId], ColumnId]) -> Self:
        """The same node with each reference changed; the node itself if none was."""
        return self._changed(lambda v: change(v) if isinstance(v, ColumnId) else v)

    def _changed(self, change: Callable[[Any], Any]) -> Self:
        made = {name: _mapped(getattr(self, name), change) for name in self.own_attributes()}
        return self._with({name: v for name, v in made.items() if v is not getattr(self, name)})

    def _with(self, changed: dict[str, Any]) -> Self:
        return replace(self, **changed) if changed else self  # type: ignore[type-var]  # every node is a dataclass

    def _input_attributes(self) -> tuple[str, ...]:
        names = (a.name for a in attributes(self) if a.metadata.get("input", True))  # type: ignore[arg-type]
        return tuple(name for name in names if _is_input(getattr(self, name)))

    def own_attributes(self) -> tuple[str, ...]:
        """The names of the attributes that are neither inputs nor left out of what a node is."""
        return tuple(
            a.name
            for a in attributes(self)  # type: ignore[arg-type]
            if not a.metadata.get("non_semantic", False) and not _is_input(getattr(self, a.name))
        )


#: The metadata of an attribute that is no part of what a node computes: where it stands in the user's file, or
#: which relation it was made of.
NON_SEMANTIC = {"non_semantic": True, "input": False}


def _is_input(value: Any) -> bool:
    return isinstance(value, Node) or (
        isinstance(value, tuple) and bool(value) and all(isinstance(v, Node) for v in value)
    )


def _found(value: object, wanted: Callable[[Any], bool]) -> Iterator[Any]:
    if wanted(value):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from _found(v, wanted)
    elif isinstance(value, Part):
        for a in attributes(value):
            if not a.metadata.get("non_semantic", False):
                yield from _found(getattr(value, a.name), wanted)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with everything inside it changed; the very same value if nothing was."""
    made = value
    if isinstance(value, tuple):
        items = [_mapped(v, change) for v in value]
        if any(a is not b for a, b in zip(value, items, strict=True)):
            made = tuple(items)
    elif isinstance(value, Part):
        changed: dict[str, Any] = {}
        for a in attributes(value):
            if not a.metadata.get("non_semantic", False):
                before = getattr(value, a.name)
                after = _mapped(before, change)
                if after is not before:
                    changed[a.name] = after
        if changed:
            made = replace(value, **changed)
    else:
        made = change(value)
    return made
