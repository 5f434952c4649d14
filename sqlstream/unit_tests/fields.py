"""Keys and values of a test file, read by what must stand there; what is wrong is collected, or refused by place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlstream.unit_tests.yaml_nodes import Items, Mapping, Node, Scalar
from sqlstream_planner.diagnostics import Diagnostic, either, refuse, suggestion

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Fields:
    """The keys of a mapping, all of which are known; `what` it is, in words."""

    what: str
    mapping: Mapping

    def get(self, name: str) -> Node | None:
        """The value of a key; None if it is not there."""
        return self.mapping.get(name)

    def scalar(self, name: str) -> Scalar | None:
        """The value of a key that is one value. Raises DiagnosticError (TST002)."""
        node = self.get(name)
        return None if node is None else scalar(node, f"`{name}` of {self.what}")

    def text(self, name: str) -> str | None:
        """The same as text."""
        found = self.scalar(name)
        return None if found is None else found.text

    def flag(self, name: str) -> bool:
        """The value of a key that is true or false; false without it. Raises DiagnosticError (TST002)."""
        found = self.scalar(name)
        if found is None:
            return False
        value = _WORDS.get(found.text.lower())
        if value is None:
            refuse(found.span, "TST002", f"`{name}` is true or false", help=f"write {name}: true")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """The value of a key that is a word, or a list of words. Raises DiagnosticError (TST002)."""
        node = self.get(name)
        if node is None:
            return ()
        items = node.items if isinstance(node, Items) else (node,)
        return tuple(scalar(item, f"`{name}` of {self.what}").text for item in items)

    def pairs(self, name: str) -> tuple[tuple[Scalar, Scalar], ...]:
        """The value of a key that has names and values. Raises DiagnosticError (TST002)."""
        node = self.get(name)
        if node is None or (isinstance(node, Scalar) and node.is_null):
            return ()
        what = f"`{name}` of {self.what}"
        return tuple((key, scalar(value, f"`{key.text}` in {what}")) for key, value in mapping(node, what))


def fields(node: Node, what: str, known: Sequence[str], mistakes: list[Diagnostic]) -> Fields:
    """The keys of `what`; those that are not `known` are mistakes. Raises DiagnosticError (TST002) if it has no keys."""
    found = mapping(node, what)
    for key, _ in found:
        if key.text not in known:
            mistakes.append(
                Diagnostic(
                    "TST002",
                    f"{what} has no key `{key.text}`",
                    key.span,
                    (f"it can have {', '.join(known)}",),
                    suggestion(key.text, known),
                )
            )
    return Fields(what, found)


def mapping(node: Node, what: str) -> Mapping:
    """A node that has keys. Raises DiagnosticError (TST002)."""
    if not isinstance(node, Mapping):
        refuse(
            node.span,
            "TST002",
            f"{what} must have keys and values, and is {_kind(node)}",
            help="write key: value",
        )
    return node


def items(node: Node, what: str) -> Items:
    """A node that is a list; nothing at all is an empty one. Raises DiagnosticError (TST002)."""
    if isinstance(node, Scalar) and node.is_null:
        return Items((), node.span)
    if not isinstance(node, Items):
        refuse(
            node.span,
            "TST002",
            f"{what} must be a list, and is {_kind(node)}",
            help="begin each item with `- `",
        )
    return node


def scalar(node: Node, what: str) -> Scalar:
    """A node that is one value. Raises DiagnosticError (TST002)."""
    if not isinstance(node, Scalar):
        refuse(node.span, "TST002", f"{what} must be one value, and is {_kind(node)}")
    return node


def one_of(value: Scalar, what: str, known: Sequence[str]) -> str:
    """A value that is one of several words. Raises DiagnosticError (TST002)."""
    if value.text not in known:
        refuse(
            value.span,
            "TST002",
            f"{what} is {either(known)}, and not '{value.text}'",
            help=suggestion(value.text, known),
        )
    return value.text


def _kind(node: Node) -> str:
    if isinstance(node, Items):
        return "a list"
    return "keys and values" if isinstance(node, Mapping) else "one value"
