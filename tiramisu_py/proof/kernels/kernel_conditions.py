"""The conditions on kernels: they can be launched, and their threads and operations are ordered."""

from __future__ import annotations

from tiramisu_py.proof.kernels import aligned_lines, structure, threads, waits
from tiramisu_py.proof.violations.condition import Condition, out_of_reach

STRUCTURE = Condition("structure", structure.findings, structure.SENTENCES, stops=out_of_reach)
THREADS = Condition("threads", threads.findings)
ALIGNED_LINES = Condition("aligned_lines", aligned_lines.findings, aligned_lines.SENTENCES)
WAITS = Condition("waits", waits.findings, waits.SENTENCES)
