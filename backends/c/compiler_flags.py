"""What a C compiler must be told for the generated sources to mean what the algorithm says."""

from __future__ import annotations

#: GNU C for vectors; integers wrap; floats round after each operation; no errno, which nobody reads.
REQUIRED = ("-std=gnu11", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
#: Beside these: how well it compiles, and threads (without it, one thread does everything).
OPTIMISATION = ("-O2",)
THREADS = ("-fopenmp",)
LIBRARIES = ("-lm",)
