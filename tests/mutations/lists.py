"""All mutations, from the lists beside this file: one list for each part of the compiler."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.mutations.mutation import Mutation

#: The parts in the order of a compilation, with their titles.
PARTS = {
    "rewriting": "Derivatives: `rewriting/`",
    "language": "Block programs, from their source to values: `language/`",
    "dependence": "Which write a read sees, what is ordered: `dependence/`",
    "proof": "The conditions of the theorem: `proof/`",
    "derivation": "What is added before the proof: `derive/`",
    "lowering": "From a proven program to loops: `lower/`",
    "passes": "From loops to loops: `passes/`",
    "c": "Emission of C and OpenMP: `backends/c`, `backends/openmp`",
    "cuda": "Emission of kernels, and of what the host tells GPUs: `backends/cuda`",
    "mpi": "Emission of messages: `backends/mpi`",
    "runtime": "What generated code calls: headers and the runtimes of GPUs and ranks",
}


def mutations(part: str) -> tuple[Mutation, ...]:
    """The mutations of a part."""
    listed = tomllib.loads(Path(__file__).with_name(f"{part}.toml").read_text())["mutation"]
    return tuple(Mutation(**each) for each in listed)


def every() -> tuple[Mutation, ...]:
    """The mutations of all parts."""
    return tuple(each for part in PARTS for each in mutations(part))
