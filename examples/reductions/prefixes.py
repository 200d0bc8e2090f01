"""Running sums: one term after another, in chunks on threads, and in chunks on a GPU, which wait for no other chunk.

In one piece they have the bits of `np.cumsum`. In chunks they have those of the declared order, whatever the schedule:
sums of chunks, what comes before each chunk, then the prefixes in it.
"""

from __future__ import annotations

import numpy as np
from story import DEVICE

import tiramisu_py as tm

(N,) = tm.params("N")
n, b, b0, b1, m = tm.iters("n b b0 b1 m")
CHUNK, THREADS = 256, 64


def algorithm(chunks: dict[tm.Iter, int] | None, exclusive: bool = False) -> tuple[tm.Function, tm.Computation]:
    """The sums of all terms up to each one, or before it."""
    f = tm.Function("running", params=[N])
    a = f.input("a", tm.float32, [N])
    y = f.scan("y", {n: N}, a[n], tm.sum, exclusive=exclusive, chunks=chunks)
    f.outputs(y)
    return f, y


def on_threads(exclusive: bool) -> tm.Function:
    """A thread has a chunk; what comes before each chunk is added up by one of them."""
    f, y = algorithm({b: CHUNK}, exclusive)
    f["y_sums"].update.parallelize(b)
    y.split(n, CHUNK, b, m)
    y.parallelize(b)
    return f


def in_one_piece() -> tm.Function:
    """One term after another: one pass over memory."""
    return algorithm(None)[0]


def on_a_gpu(exclusive: bool) -> tm.Function:
    """A thread of the GPU has a chunk, and 64 of them are a block; one thread has what comes before each."""
    f, y = algorithm({b: CHUNK}, exclusive)
    y.split(n, CHUNK, b, m)
    for stage in (f["y_sums"], y):
        stage.split(b, THREADS, b0, b1)
        stage.tag_gpu(blocks=[b0], threads=[b1])
    f.derive_transfers()
    return f


def main() -> None:
    """Compare with NumPy: bits in one piece, values in chunks, and the bits of `evaluate()` in chunks."""
    plain = algorithm(None)[0].compile()
    for exclusive in (False, True):
        threads, blocks = on_threads(exclusive), on_a_gpu(exclusive)
        print(threads.check(), blocks.check(), sep="\n")
        kernels = threads.compile(threads=1), threads.compile(threads=2), blocks.compile(device=DEVICE)
        for size in (0, 1, 31, CHUNK + 1, 70 * CHUNK - 3):
            a = np.random.default_rng(size).standard_normal(size, np.float32)
            assert plain(a).tobytes() == np.cumsum(a, dtype=np.float32).tobytes()
            exact = np.cumsum(a, dtype=np.float64) - (a if exclusive else 0)
            found = kernels[0](a)
            np.testing.assert_allclose(found, exact, atol=1e-2)
            assert {kernel(a).tobytes() for kernel in kernels} == {found.tobytes()}
    print("right: running sums are those of NumPy, with the same bits on one thread, two threads and a GPU")


if __name__ == "__main__":
    main()
