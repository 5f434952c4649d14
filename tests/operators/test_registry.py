"""What the registry and the specs say of operators is so."""

from __future__ import annotations

import pytest

from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from tests.operators.test_time_to_live import DUCK, SPECS, inputs


@pytest.mark.parametrize("kind", SPECS)
def test_what_an_operator_emits_has_weights_if_its_spec_says_so(kind: str) -> None:
    """Where nothing came, the operator is not run and its empty relation is made from the spec alone."""
    spec = SPECS[kind]
    context = OperatorContext(0, 1, 128, Watermarks(), MemoryShardStore(spec.state), DUCK)
    for rows in ([], [("a", 1, 1)]):
        output = operator_of(spec).process(inputs(kind, rows), context).output
        assert (WEIGHT_COLUMN in output.column_names) == spec.emits_changes
