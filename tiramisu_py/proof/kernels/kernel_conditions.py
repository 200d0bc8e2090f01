"""The conditions on kernels: they can be launched, and their threads and operations are ordered."""

from __future__ import annotations

from tiramisu_py.proof.kernels import structure, threads, waits
from tiramisu_py.proof.violations.condition import Condition, out_of_reach

STRUCTURE = Condition("structure", structure.findings, structure.SENTENCES, stops=out_of_reach)
THREADS = Condition("threads", threads.findings)
WAITS = Condition("waits", waits.findings, waits.SENTENCES)
