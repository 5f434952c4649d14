"""What a run does only by consent: `--accept` gives it beforehand, on a terminal the run asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


@dataclass(frozen=True, slots=True)
class Consent:
    """What must be agreed to: `accept` is how (`--accept fresh:NAME`), `why` what can't be had.

    `then` says of `what` (words for people) what becomes of it, as the rest of a sentence, `way` what is agreed to.
    """

    accept: str
    what: str
    why: Diagnostic
    then: str = "will count only from now on"
    way: str = "let what needs it begin now"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"accept": self.accept, "what": self.what, "why": self.why.to_json()}


class ConsentNeededError(DiagnosticError):
    """Nothing was changed, as somebody must agree to these first: exit code 3."""

    def __init__(self, *consents: Consent) -> None:
        self.consents = consents
        super().__init__(*_diagnostics_of(consents), exit_code=3)


def _diagnostics_of(consents: Iterable[Consent]) -> Iterable[Diagnostic]:
    """Each reason once, with the way on that does not need it."""
    ways: dict[tuple[Diagnostic, str], list[str]] = {}
    for consent in consents:
        why = replace(consent.why, severity="error")
        ways.setdefault((why, consent.way), []).append(f"--accept {consent.accept}")
    for (why, way), accepts in ways.items():
        begin = f"or {way}, with `{' '.join(dict.fromkeys(accepts))}`"
        yield replace(why, help=f"{why.help}; {begin}" if why.help else begin.removeprefix("or "))
