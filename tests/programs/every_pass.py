"""Programs that between them need every pass, small enough to be interpreted after each."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import tiramisu_py as tm
from tests.programs import chains, matrix_tiles
from tests.programs.gpu import tensor_products
from tests.programs.ranks import uneven_pieces as pieces

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
N, M = tm.params("N M")
i, j, k, u = tm.iters("i j k u")


@dataclass(frozen=True)
class Sample:
    """A function, sizes to run it at, and the bytes of a vector register."""

    name: str
    build: Callable[[], tm.Function]
    sizes: tuple[Mapping[str, int], ...]
    register: int = 64


def example(folder: str, name: str, variant: str = "", *given: int) -> Callable[[], tm.Function]:
    """A story of examples/."""

    def build() -> tm.Function:
        told = _module(EXAMPLES / folder / f"{name}.py")
        f: tm.Function = told.VARIANTS[variant](*given) if variant else told.scheduled(*given)
        return f

    return build


def _module(path: Path) -> ModuleType:
    """A story; other folders have modules of the same names."""
    before = dict(sys.modules)
    sys.path.insert(0, str(path.parent))
    try:
        for beside in ("story", "pictures", "ranks"):
            sys.modules.pop(beside, None)
        spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(path.parent))
        for beside in ("story", "pictures", "ranks"):
            sys.modules.pop(beside, None)
        sys.modules |= before


def tiles() -> tm.Function:
    """Partial tiles, unrolled loops, vectors that are wider than the register, and a remainder."""
    f = tm.Function("tiles", params=[N, M], assume="N >= 1 and M >= 1")
    x = f.input("x", tm.float32, [N, M])
    y = f.computation("y", {i: N, j: M}, 2 * x[i, j] + 1)
    f.outputs(y)
    y.split(i, 3, k, u)
    y.unroll(u)
    y.vectorize(j, 8)
    return f


def every_other() -> tm.Function:
    """A vector loop with a step."""
    f = tm.Function("every_other", params=[N], assume="N >= 1")
    a = f.input("a", tm.int32, [N])
    b = f.input("b", tm.int32, [N + 1])
    p = f.computation("p", {i: N}, tm.select(i % 2 == 0, b[i + 1], a[i // 2]))
    f.outputs(p)
    p.vectorize(i, 8, remainder="mask")
    return f


def unread() -> tm.Function:
    """A value that nothing needs."""
    f = tm.Function("unread", params=[N], assume="N >= 1")
    x = f.input("x", tm.float32, [N])
    f.computation("t", {i: N}, 3 * x[i])
    y = f.computation("y", {i: N}, x[i] + 1)
    f.outputs(y)
    return f


def triangle() -> tm.Function:
    """Two parallel loops that cannot be dealt out together."""
    f = tm.Function("triangle", params=[N], assume="N >= 1")
    x = f.input("x", tm.float32, [N, N])
    y = f.computation("y", "[N] -> { y[i, j] : 0 <= j <= i < N }", x[i, j] + 1, shape=[N, N])
    f.outputs(y)
    y.parallelize(i, j)
    return f


def joined() -> tm.Function:
    """A whole array in one loop."""
    f = tm.Function("joined", params=[N])
    x = f.input("x", tm.float32, [N, 3, 5])
    y = f.computation("y", {i: N, j: 3, k: 5}, x[i, j, k] + 1)
    f.outputs(y)
    y.coalesce(i, j, k, into=u).vectorize(u, 8)
    return f


def bundles() -> tm.Function:
    """Sums over two sizes: ranges of terms on threads, parts of terms on a GPU, and an elementwise array there."""
    f = tm.Function("bundles", params=[N, M])
    a, b = f.input("a", tm.int32, [N, M]), f.input("b", tm.int32, [M])
    s = f.reduction("s", {}, {i: N, j: M}, tm.sum, a[i, j] * b[j])
    t = f.reduction("t", {}, {i: N, j: M}, tm.max, a[i, j] + b[j])
    o = f.computation("o", {i: N, j: M}, a[i, j] - b[j])
    f.outputs(s, t, o)
    k0, k1, u0, u1 = tm.iters("k0 k1 u0 u1")
    s.update.coalesce(i, j, into=k).parallelize(k, combine=tm.TREE)
    t.update.coalesce(i, j, into=k).split(k, 4, k0, k1).split(k0, 2, u0, u1).reorder(u1, k1, u0)
    t.update.tag_gpu(blocks=[u1], threads=[k1], combine=tm.TREE, across=tm.TWO_PASS)
    o.coalesce(i, j, into=k).split(k, 8, k0, k1).tag_gpu(blocks=[k0], threads=[k1], grid=2)
    f.derive_transfers()
    return f


def swizzled() -> tm.Function:
    """A transposition through a swizzled tile of shared memory."""
    f = tm.Function("swizzled", params=[N])
    a = f.input("a", tm.int32, [N, N])
    p = f.computation("p", {i: N, j: N}, 2 * a[i, j])
    o = f.computation("o", {i: N, j: N}, p[j, i])
    f.outputs(o)
    o.gpu_tile(i, j, 4, 4, *tm.iters("i0 j0 i1 j1"))
    p.compute_at(o, tm.iters("j0")[0]).store_in(tm.SHARED, swizzle=4)
    p.tag_gpu(threads=[i, j])
    f.derive_transfers()
    return f


SAMPLES = (
    Sample("bundles", bundles, ({"N": 3, "M": 5}, {"N": 1, "M": 2})),
    Sample("tiles", tiles, ({"N": 7, "M": 11}, {"N": 3, "M": 16}), 16),
    Sample("a step", every_other, ({"N": 19},)),
    Sample("unread", unread, ({"N": 5},)),
    Sample("joined", joined, ({"N": 4},)),
    Sample("triangle", triangle, ({"N": 4},)),
    Sample("cpu/blur", example("cpu", "blur"), ({"R": 9, "C": 18, "S": 20},)),
    Sample("cpu/heat", example("cpu", "heat", "step by step"), ({"T": 2, "N": 5, "M": 19},)),
    Sample("cpu/tiles in time", example("cpu", "heat", "tiles"), ({"T": 2, "N": 4, "M": 19},)),
    Sample("cpu/warp", example("cpu", "warp"), ({"R": 3, "C": 18},)),
    Sample("mpi/blur", example("mpi", "blur", "derived", 2, 6), ({"C": 9},)),
    Sample("mpi/sums", example("mpi", "sums", "on one rank", 2, 6), ({},)),
    Sample("uneven pieces", pieces.blur, ({"R": 7, "C": 3, "G": 2, "H": 4},)),
    Sample("gpu/sums", example("gpu", "sums", "tree"), ({"N": 5},)),
    Sample("gpu/product", example("gpu", "matrix_product", "register tiles"), ({"M": 3, "N": 4, "K": 4},)),
    Sample("gpu/two GPUs", example("gpu", "two_gpus", "halves"), ({"R": 5, "C": 3},)),
    Sample("gpu/warps", lambda: tensor_products.product(shared=False)[0], ({"M": 16, "N": 16, "K": 16},)),
    Sample("swizzled", swizzled, ({"N": 5},)),
    Sample("tiles of cores", lambda: matrix_tiles.product(across=1)[0], ({"N": 16, "M": 16, "K": 64},)),
    Sample("lifetimes", partial(chains.chain, 4), ({"N": 2, "M": 8},)),
    Sample("lifetimes on streams", partial(chains.chain, 4, "gpu", (0, 1)), ({"N": 2, "M": 7},)),
    Sample("lifetimes on ranks", partial(chains.on_ranks, 3, True), ({"M": 2},)),
    Sample("rows of iterations", chains.rows_of_iterations, ({"N": 5, "M": 3},)),
    Sample("cooperative/blur", example("cooperative", "blur", "two GPUs"), ({"R": 5, "C": 3, "G": 2},)),
)
