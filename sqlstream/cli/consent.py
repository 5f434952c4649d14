"""Asks on a terminal for what `--accept` says beforehand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.cli.render import colourful, diagnostic_text

if TYPE_CHECKING:
    from sqlstream.runtime.edits.consent import ConsentNeededError

_YES = ("y", "yes")


def can_ask() -> bool:
    """Whether somebody sits there: standard input and output are a terminal."""
    return bool(sys.stdin and sys.stdout and sys.stdin.isatty() and sys.stdout.isatty())


def ask(
    needed: ConsentNeededError, accepted: Collection[str], sources: Mapping[str, str]
) -> tuple[str, ...] | None:
    """What the user agrees to beyond what is `accepted`; None if to nothing. `sources` are the texts of the user's files.

    Raises the error itself if all of it was accepted before, and changed nothing. A Ctrl-C is a KeyboardInterrupt; the end
    of the input is a no.
    """
    wanted = {c.accept: c for c in needed.consents if c.accept not in accepted}
    if not wanted:
        raise needed
    out = sys.stderr if sys.stderr.isatty() else sys.stdout
    for why in dict.fromkeys(replace(c.why, severity="warning") for c in wanted.values()):
        out.write(diagnostic_text(why, sources, colour=colourful(out)) + "\n\n")
    for accept, consent in wanted.items():
        out.write(f"{consent.what} {consent.then} (--accept {accept})\n")
    out.write("Go on? [y/N] ")
    out.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        out.write("\n")
    return tuple(wanted) if answer.strip().lower() in _YES else None


def until_agreed(
    attempt: Callable[[tuple[str, ...]], None], accepted: tuple[str, ...], sources: Mapping[str, str]
) -> ConsentNeededError | None:
    """Attempt with what is `accepted`, and again with what the user agrees to; what was refused, None if it was done."""
    from sqlstream.runtime.edits.consent import ConsentNeededError

    while True:
        try:
            attempt(accepted)
            return None
        except ConsentNeededError as needed:
            if not can_ask():
                raise
            agreed = ask(needed, accepted, sources)
            if agreed is None:
                return needed
            accepted = (*accepted, *agreed)
