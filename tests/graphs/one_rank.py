"""One rank of a layer on ranks: its results and gradients beside those of one process, and a wrong argument."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from tests.graphs.models import odd_graphs
from tests.graphs.test_models import arguments, graph_of, layer
from tiramisu_py.errors import ArgumentError


def main() -> None:
    comm, edges = MPI.COMM_WORLD, odd_graphs()["a hub"]
    given, graph, own = arguments("gcn", edges), graph_of(edges), layer("gcn")
    run, whole = own.on_ranks(graph, comm.size - 1), own.on(graph)  # the last rank has nothing to do
    mine = run.owned(comm.rank)
    part: dict[str, Any] = {**given, "feature": given["feature"][mine]}
    out = whole(**given)
    np.testing.assert_allclose(run(**part, comm=comm), out[mine], rtol=1e-10, atol=1e-12)
    weights = np.random.default_rng(1).standard_normal(out.shape)
    found, wanted = run.gradients(weights[mine], **part, comm=comm), whole.gradients(weights, **given)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        if comm.rank == run.ranks:
            assert found[name].size == 0
            continue
        np.testing.assert_allclose(found[name], value[mine] if name == "feature" else value, rtol=1e-9, atol=1e-11)
    print("as one process", flush=True)
    if comm.rank == 1:
        part["feature"] = given["feature"][:1]
    try:
        run(**part, comm=comm)
    except ArgumentError as error:
        print(error, flush=True)


if __name__ == "__main__":
    main()
