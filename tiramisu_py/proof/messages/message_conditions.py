"""The conditions on ranks: statements have executors, messages match, requests are free, nobody waits for ever."""

from __future__ import annotations

from tiramisu_py.proof.messages import array_parts, collectives, deadlock, executors, matching, requests
from tiramisu_py.proof.messages.windows import in_window
from tiramisu_py.proof.violations.condition import Condition, out_of_reach

EXECUTORS = Condition("executors", in_window(executors.findings), stops=executors.computed_nowhere)
ARRAY_PARTS = Condition("array_parts", array_parts.findings, stops=out_of_reach)
REQUESTS = Condition("requests", requests.findings)
MATCHING = Condition("matching", in_window(matching.findings), matching.SENTENCES)
COLLECTIVES = Condition("collectives", collectives.findings, collectives.SENTENCES)
DEADLOCK = Condition("deadlock", in_window(deadlock.findings), deadlock.SENTENCES)
