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
from sqlstream_planner.secrets.masking import HIDDEN, SECRET_IN_URL, shown_options

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import Option

#: A reference in an option's value.
REFERENCE = re.compile(r"\$\{secret:([^}]*)\}")
#: What of an option's value is kept apart: passwords of URLs, and text that could be taken for a reference of ours.
_APART = re.compile(f"(?P<reference>{REFERENCE.pattern})|{SECRET_IN_URL.pattern}", re.IGNORECASE)

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

    def _text(self, table: str, key: str, text: str) -> str:
        def value(found: re.Match[str]) -> str:
            if found[1] not in self.values:
                raise DiagnosticError(
                    Diagnostic(
                        "OPT007",
                        f"the password in `{key}` of `{table}` is not known any more",
                        notes=("passwords are not kept with a plan; they come from the present file",),
                        help=f"keep the CREATE TABLE of `{table}` in the file, even if nothing writes to it any more, "
                        "until another epoch is committed: its last one may have to be committed again",
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
        name = f"{quote(table, safe='')}.{quote(option.key, safe='')}"
        definition = find_option(known, option.key)
        if definition is not None and definition.secret:
            values[name] = option.value
            shown[option.key] = f"${{secret:{name}}}"
            continue

        def apart(found: re.Match[str], name: str = name) -> str:
            before = found["before"] or found["name"] or ""
            value = found.group()[len(before) :]
            if not value:
                return before
            part = f"{name}.{sum(key.startswith(f'{name}.') for key in values) + 1}"
            values[part] = value
            return f"{before}${{secret:{part}}}"

        shown[option.key] = _APART.sub(apart, option.value)
    return shown, values


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
