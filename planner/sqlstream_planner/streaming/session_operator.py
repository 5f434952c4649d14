"""What both operators over sessions say alike: rows wait for a session to close, or are given and corrected."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.logical.arity import UnaryNode
from sqlstream_planner.logical.operator import (
    EARLY,
    Corrected,
    Given,
    StreamingOperator,
    Timed,
    Updating,
)


class SessionOperator(StreamingOperator, UnaryNode):
    """An operator over sessions; `early`: each is given at once, and again when it changes."""

    __slots__ = ()

    early: bool

    def is_updating(self, updating: Updating) -> bool:
        return self.early

    @property
    def why_updating(self) -> str | None:
        return EARLY

    @property
    def corrected(self) -> Corrected:
        return Corrected.WITH_INPUT

    @property
    def is_consolidated(self) -> bool:
        return True

    @property
    def given(self) -> Given:
        return Given.AT_ONCE if self.early else Given.ON_CLOSE

    def timed_columns(self, timed: Timed) -> frozenset[str] | None:
        return None

    def is_bounded(self, updating: Updating) -> bool | None:
        return True

    @property
    def time_to_live(self) -> int | None:
        return None

    @property
    def remembers_given(self) -> bool:
        return False

    def answer_keys(self, updating: Updating) -> Mapping[str, exp.Expr] | None:
        return None
