"""What one rank does for all ranks of a test: to prove and to compile, which each of them would do by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tiramisu_py as tm
from tests.mpi.waiting import meet
from tiramisu_py.toolchain.compilers.mpi import mpi4py


@dataclass(frozen=True)
class Ready:
    """A program that is ready to run on a rank: its kernel, the arguments, and the parts of outputs by their names."""

    kernel: tm.Kernel
    given: dict[str, Any]
    wanted: dict[str, np.ndarray]


def ready(f: tm.Function, given: dict[str, Any]) -> Ready:
    """A program with this rank's parts of the arguments and the results; the first rank makes them for all.

    Other tests compile on every rank, as users do. Here that would take as many times as long as there are ranks.
    """
    comm = mpi4py().COMM_WORLD
    made = _parts(f, given, comm.size) if comm.rank == 0 else None
    kernel = f.compile() if comm.rank == 0 else None
    meet(comm)
    kernel = comm.bcast(kernel)
    own, wanted = comm.scatter(made)
    return Ready(kernel, own, wanted)


def _parts(f: tm.Function, given: dict[str, Any], ranks: int) -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
    params = {name: given[name] for name in f.algorithm.params if name in given}
    arrays = {name: x for name, x in given.items() if isinstance(x, np.ndarray)}
    found = f.evaluate(**given)
    results = dict(zip(f.algorithm.outputs, found if isinstance(found, tuple) else (found,), strict=True))
    return [
        (
            {name: f.part(name, x, rank, **params) if name in arrays else x for name, x in given.items()},
            {name: f.part(name, x, rank, **params) for name, x in results.items()},
        )
        for rank in range(ranks)
    ]
