"""Passwords in options. A plan has references in their place; what they refer to goes with a run and is kept nowhere.

So a plan, and everything that is made of it (digests, manifests, explanations), is the same whatever the password is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_planner.catalog.options import OptionDef, find_option
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.text.masking import HIDDEN, secrets_in_url, shown_options

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import Option

#: A reference in an option's value.
REFERENCE = re.compile(r"\$\{secret:([^}]*)\}")
#: A password that is shorter may stand anywhere, as a part of other words.
_TELLING = 4

_Spec = TypeVar("_Spec", SourceSpec, SinkSpec)


@dataclass(frozen=True, slots=True)
class Secrets:
    """What the references of a plan stand for, by `table.option`; never shown, never stored."""

    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    def resolved(self, spec: _Spec) -> _Spec:
        """A source or a sink as its connector needs it.

        Raises DiagnosticError (OPT007) if a reference stands for nothing: the present file has no such option.
        """
        if not any(REFERENCE.search(value) for value in spec.options.values()):
            return spec
        return replace(
            spec, options={key: self._text(spec.name, key, value) for key, value in spec.options.items()}
        )

    def masked(self, text: str) -> str:
        """A text as it may be shown.

        >>> Secrets({"t.password": "hunter2", "u.password": "x"}).masked("user x, password hunter2")
        'user x, password ***'
        """
        for secret in sorted({v for v in self.values.values() if len(v) >= _TELLING}, key=len, reverse=True):
            if secret in text:
                text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
        return text

    def hidden_in(self, error: DiagnosticError) -> DiagnosticError:
        """An error as it may be shown: a server or a driver may have put a password into its words."""
        shown = self.masked
        for diagnostic in error.diagnostics:
            texts = (diagnostic.message, *diagnostic.notes, diagnostic.help or "")
            if any(shown(text) != text for text in texts):
                break
        else:
            return error
        return DiagnosticError(
            *(
                replace(
                    d,
                    message=shown(d.message),
                    notes=tuple(map(shown, d.notes)),
                    help=d.help and shown(d.help),
                )
                for d in error.diagnostics
            ),
            exit_code=error.exit_code,
        )

    def _text(self, table: str, key: str, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] not in self.values:
                raise DiagnosticError(
                    Diagnostic(
                        "OPT007",
                        f"the password in `{key}` of `{table}` is not known any more",
                        notes=("passwords are not kept with a plan; they come from the present file",),
                        help=f"keep the CREATE TABLE of `{table}` in the file, even if nothing writes to it any more, "
                        "until another epoch is committed: its last one may be committed again",
                    )
                )
            return self.values[found[1]]

        return REFERENCE.sub(value, text)


def hidden(
    table: str, options: Sequence[Option], known: Sequence[OptionDef]
) -> tuple[dict[str, str], dict[str, str]]:
    """A table's options with references for secrets, and what these stand for.

    >>> from sqlstream_planner.catalog.options import ValueKind
    >>> from sqlstream_planner.diagnostics import Span
    >>> from sqlstream_planner.sql.statements import Option
    >>> at = Span("q.sql", 1, 1)
    >>> known = [OptionDef("password", ValueKind.STRING, "", secret=True), OptionDef("url", ValueKind.STRING, "")]
    >>> hidden("t", [Option("password", "x", at, at), Option("url", "p://u:y@h", at, at)], known)[0]
    {'password': '${secret:t.password}', 'url': 'p://u:${secret:t.url.1}@h'}
    """
    shown: dict[str, str] = {}
    values: dict[str, str] = {}
    for option in options:
        # Full names of catalogs' tables have dots, and so have keys of options.
        name = f"{quote(table, safe='').replace('.', '%2E')}.{quote(option.key, safe='')}"
        definition = find_option(known, option.key)
        if definition is not None and definition.hides(option.key):
            values[name] = option.value
            shown[option.key] = f"${{secret:{name}}}"
            continue

        pieces, done = [], 0
        for number, (begin, end) in enumerate(_apart(option.value), 1):
            values[f"{name}.{number}"] = option.value[begin:end]
            pieces += [option.value[done:begin], f"${{secret:{name}.{number}}}"]
            done = end
        shown[option.key] = "".join([*pieces, option.value[done:]])
    return shown, values


def _apart(value: str) -> list[tuple[int, int]]:
    """What of an option's value is kept apart: passwords of URLs, and text that could be taken for a reference of ours."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted([*secrets_in_url(value), *(r.span() for r in REFERENCE.finditer(value))]):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def without_secrets(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan as it may be shown: a reference is as good as a password to those who read it."""

    def shown(spec: _Spec) -> _Spec:
        return replace(
            spec, options={k: REFERENCE.sub(HIDDEN, v) for k, v in shown_options(spec.options).items()}
        )

    return replace(
        plan,
        sources=tuple(shown(s) for s in plan.sources),
        sinks=tuple(shown(s) for s in plan.sinks),
        dimensions=tuple(replace(d, source=shown(d.source)) for d in plan.dimensions),
    )
