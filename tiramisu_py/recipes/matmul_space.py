"""The sizes of matrix products that are worth trying: a space for `tune`."""

from __future__ import annotations

from tiramisu_py import Computation, Target
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.matmul import MOST_LANES, MOST_ROWS, Sizes
from tiramisu_py.recipes.recipe import Recipe, processor


def matmul_space(product: Computation, *, cpu: Cpu | Target | str | None = None) -> dict[str, list[int]]:
    """Values of the `sizes` of `matmul` around those that follow from `cpu` (default: this machine's), for `tune`.

    ::

        def make(**sizes):
            f, C = product()
            tm.recipes.matmul(C, sizes=sizes)
            return f

        cpu = tm.target()
        room = cpu.vector_registers * cpu.lanes(tm.float32)
        space = tm.recipes.matmul_space(product()[1])       # {"terms": [...], "rows": [...], ...}
        tm.tune(make, space, where=lambda rows, columns, **_: (rows + 1) * columns <= room, ...)

    Accumulators and a row of vectors should fit in the registers, as the condition here says. Raises `ArgumentError`.
    """
    Recipe("matmul_space", [product])
    plan = Sizes.of(product, processor("matmul_space", cpu))
    lanes = plan.lanes
    widths = [lanes * vectors for vectors in (1, 2, 4, 8) if lanes * vectors <= MOST_LANES]
    terms = {max(plan.terms * part // 4 // lanes * lanes, lanes) for part in (1, 2, 3, 4, 8)}
    return {
        "terms": sorted(terms),
        "rows": sorted({*range(2, MOST_ROWS + 1, 2), plan.rows}),
        "columns": sorted({*widths, plan.columns}),
        "tiles": sorted({max(plan.tiles * part // 4, 1) for part in (1, 2, 4, 8)}),
    }
