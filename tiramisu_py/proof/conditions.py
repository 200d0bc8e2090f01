"""The conditions of the theorem, by family, and the order in which they are tried."""

from __future__ import annotations

from tiramisu_py.proof import requested_code
from tiramisu_py.proof.kernels import aligned_lines, structure, threads, waits
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
from tiramisu_py.proof.messages import array_parts, collectives, deadlock, executors, matching, requests
from tiramisu_py.proof.messages.windows import in_window
from tiramisu_py.proof.reductions import (
    bits,
    grades,
    parts_of_terms,
    private_copies,
    rank_reductions,
    reductions,
    trees,
)
from tiramisu_py.proof.violations.condition import Condition, out_of_reach

# On kernels: they can be launched, and their threads and operations are ordered.
STRUCTURE = Condition("structure", structure.findings, structure.SENTENCES, stops=out_of_reach)
THREADS = Condition("threads", threads.findings)
ALIGNED_LINES = Condition("aligned_lines", aligned_lines.findings, aligned_lines.SENTENCES)
WAITS = Condition("waits", waits.findings, waits.SENTENCES)

# On ranks: statements have executors, messages match, requests are free, nobody waits for ever.
EXECUTORS = Condition("executors", in_window(executors.findings), stops=executors.computed_nowhere)
ARRAY_PARTS = Condition("array_parts", array_parts.findings, stops=out_of_reach)
REQUESTS = Condition("requests", requests.findings)
MATCHING = Condition("matching", in_window(matching.findings), matching.SENTENCES)
COLLECTIVES = Condition("collectives", collectives.findings, collectives.SENTENCES)
DEADLOCK = Condition("deadlock", in_window(deadlock.findings), deadlock.SENTENCES)

# On memory: every read sees its value; places exist, are in reach, and are free of races.
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

# On reductions: every term once, complete results, and combinations that are possible.
PARTS_OF_TERMS = Condition("parts_of_terms", parts_of_terms.findings, parts_of_terms.SENTENCES)
RANK_REDUCTIONS = Condition("rank_reductions", rank_reductions.findings, stops=out_of_reach)
REDUCTIONS = Condition("reductions", reductions.findings, reductions.SENTENCES)
BITS = Condition("bits", bits.findings)
GRADES = Condition("grades", grades.findings)
TREES = Condition("trees", trees.findings)
PRIVATE_COPIES = Condition("private_copies", private_copies.findings)

#: The conditions in the order in which they are tried.
CONDITIONS = (
    STRUCTURE,
    EXECUTORS,
    ARRAY_PARTS,
    REACH,
    RANK_REDUCTIONS,
    PLACES,
    VALUES,
    IMPLIED_CONDITIONS,
    WHOLE_CALLS,
    PARTS_OF_TERMS,
    REDUCTIONS,
    BITS,
    GRADES,
    RACES,
    OVERLAPPING_VECTORS,
    WHOLE_VECTORS,
    THREADS,
    ALIGNED_LINES,
    TREES,
    WAITS,
    REQUESTS,
    PRIVATE_COPIES,
    CALLERS_ARRAYS,
    OPERANDS_BETWEEN_CALLS,
    MATCHING,
    COLLECTIVES,
    DEADLOCK,
    Condition("requested_code", requested_code.findings),
)
