"""The conditions on memory: every read sees its value; places exist, are in reach, and are free of races."""

from __future__ import annotations

from tiramisu_py.proof.memory import (
    callers_arrays,
    implied_conditions,
    operands_between_calls,
    overlapping_vectors,
    places,
    races,
    reach,
    values,
    whole_calls,
    whole_vectors,
)
from tiramisu_py.proof.violations.condition import Condition, out_of_reach

REACH = Condition("reach", reach.findings, stops=out_of_reach)
PLACES = Condition("places", places.findings, stops=out_of_reach)
VALUES = Condition("values", values.findings, values.SENTENCES)
RACES = Condition("races", races.findings, races.SENTENCES)
OVERLAPPING_VECTORS = Condition("overlapping_vectors", overlapping_vectors.findings, overlapping_vectors.SENTENCES)
WHOLE_VECTORS = Condition("whole_vectors", whole_vectors.findings, whole_vectors.SENTENCES)
WHOLE_CALLS = Condition("whole_calls", whole_calls.findings, whole_calls.SENTENCES)
CALLERS_ARRAYS = Condition("callers_arrays", callers_arrays.findings)
OPERANDS_BETWEEN_CALLS = Condition(
    "operands_between_calls", operands_between_calls.findings, operands_between_calls.SENTENCES
)
IMPLIED_CONDITIONS = Condition("implied_conditions", implied_conditions.findings, implied_conditions.SENTENCES)
