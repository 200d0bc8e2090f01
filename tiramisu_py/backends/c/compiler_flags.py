"""The C compiler flags that give the generated sources the meaning of the algorithm."""

from __future__ import annotations

#: GNU C for vectors; integers wrap; floats round after each operation; no errno, since nothing reads it.
REQUIRED = ("-std=gnu11", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
#: Optional flags: the optimisation level, and OpenMP (without it, everything runs on one thread).
OPTIMISATION = ("-O2",)
THREADS = ("-fopenmp",)
LIBRARIES = ("-lm",)
