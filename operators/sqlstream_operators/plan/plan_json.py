"""Physical plans as JSON and back: typed, strict, and the same text for the same plan (`plain_data`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .plain_data import PLAN, decode, encode
from .spec import PhysicalPlan


def to_json(plan: PhysicalPlan) -> dict[str, Any]:
    """The plan as plain JSON data, keys in a fixed order."""
    data: dict[str, Any] = encode(PhysicalPlan, plan, PLAN)
    return data


def from_json(data: Mapping[str, Any]) -> PhysicalPlan:
    """Read what `to_json` wrote. Raises ValueError that names the place for anything else."""
    plan: PhysicalPlan = decode(PhysicalPlan, data, "plan", PLAN)
    return plan


def to_text(plan: PhysicalPlan) -> str:
    """The plan as one line of JSON."""
    return json.dumps(to_json(plan), ensure_ascii=False, separators=(",", ":"))


def from_text(text: str) -> PhysicalPlan:
    """Read what `to_text` wrote."""
    return from_json(json.loads(text))
