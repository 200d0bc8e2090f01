"""doitgen: the last dimension of an array of three multiplied by a matrix, in place."""

from __future__ import annotations

from kernel_story import Arguments, Array, Sizes, filled, tell, tile_of

import tiramisu_py as tm

NR, NQ, NP = tm.params("NR NQ NP")
r, q, p, s, q0, q1, p0, p1, s0, s1 = tm.iters("r q p s q0 q1 p0 p1 s0 s1")
CLOSE = 1e-12
SIZES: dict[str, Sizes] = {
    "ONE": {"NR": 1, "NQ": 1, "NP": 1},
    "ODD": {"NR": 5, "NQ": 17, "NP": 67},
    "MINI": {"NR": 10, "NQ": 8, "NP": 12},
    "SMALL": {"NR": 25, "NQ": 20, "NP": 30},
    "LARGE": {"NR": 150, "NQ": 140, "NP": 160},
}


def algorithm() -> tm.Function:
    """The sums, which the caller finds in A."""
    f = tm.Function("doitgen", params=[NR, NQ, NP], assume="NR >= 1 and NQ >= 1 and NP >= 1")
    A, C4 = f.input("A", tm.float64, [NR, NQ, NP]), f.input("C4", tm.float64, [NP, NP])
    total = f.reduction("total", {r: NR, q: NQ, p: NP}, {s: NP}, tm.sum, A[r, q, s] * C4[s, p])
    updated = f.computation("updated", {r: NR, q: NQ, p: NP}, total[r, q, p])
    f.outputs(updated)
    updated.store_in(A, [r, q, p])
    return f


def scheduled(cpu: tm.Target | None = None) -> tm.Function:
    """A few rows of A at a time: their sums in tiles of registers, kept in the first-level cache until A may change."""
    cpu = cpu or tm.target()
    lanes, tile = cpu.lanes(tm.float64), tile_of(cpu)
    f = algorithm()
    total, updated = f["total"], f["updated"]
    updated.split(q, tile["rows"], q0, q1)
    updated.parallelize(r)
    updated.vectorize(p, lanes, remainder="mask")
    total.update.split(s, 512, s0, s1)
    block = total.update.rfactor(s0)
    total.compute_at(updated, q0)
    total.init.vectorize(p, lanes, remainder="mask")
    total.update.split(p, tile["columns"], p0, p1)
    total.update.reorder(s0, p0, q, p1)
    total.update.unroll(q, remainder="specialize")
    total.update.vectorize(p1, lanes, remainder="mask", partial="specialize")
    block.compute_at(total.update, p0)
    block.store_in(tm.REGISTER)
    block.update.reorder(s, q, p)
    block.unroll(q, remainder="specialize")
    block.vectorize(p, lanes, remainder="mask", partial="specialize")
    return f


def sample(sizes: Sizes) -> Arguments:
    """PolyBench's values."""
    nr, nq, np_ = (sizes[name] for name in ("NR", "NQ", "NP"))
    return {
        "A": filled(lambda r, q, p: (r * q + p) % np_ / np_, nr, nq, np_),
        "C4": filled(lambda s, p: s * p % np_ / np_, np_, np_),
    }


def exact(given: Arguments) -> tuple[Array, ...]:
    """NumPy's product."""
    return (given["A"] @ given["C4"],)


if __name__ == "__main__":
    tell(algorithm, scheduled, SIZES, sample, exact, CLOSE)
