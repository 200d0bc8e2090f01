"""The recipe for products over the rows of a sparse matrix: rows on threads by their entries, entries in vectors."""

from __future__ import annotations

from tiramisu_py import Combine, Computation, Iter, Reduction, Target
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor, untouched
from tiramisu_py.sparse.csr_product import csr_product

#: The most entries that are gathered at once: with more, the last entries of most rows would run one by one.
MOST_LANES = 8
#: How many bytes of values ahead of their use are prefetched.
AHEAD = 2048


@own_call_of("tm.recipes")
def spmv(product: Computation, *, cpu: Cpu | Target | str | None = None) -> AppliedCommands:
    """Schedule ``y[i] += value[p] * x[column[p]]`` over the rows of a matrix: ``start[i] <= p < start[i + 1]``.

    ::

        print(tm.recipes.spmv(y))
            -->   i, p = tm.iters("i p")
                  y = f["y"]
                  y.update.after(y.init, i)
                  start = f["start"]
                  y.parallelize(i, balance=start)
                  y.update.vectorize(p, 8, combine=tm.PRIVATE, remainder="mask")
                  column = f["column"]
                  y.update.prefetch(column, p, 512)
                  value = f["value"]
                  y.update.prefetch(value, p, 512)

    Threads have rows with about the same number of entries. The entries of a row are taken several at a time, as many
    as a vector of `cpu` (default: this machine's) holds, and at most 8; the last ones of a row are a vector of their
    own where the processor has masks for it (AVX2, AVX-512). The arrays of entries are prefetched. The terms may be
    any expression of inputs at ``[p]``, and of inputs at places that such elements say. A sum of floating-point numbers
    is rounded in another order. A matrix that is used many times is faster in slices: see `tm.sparse.sell`.

    Returns the commands as text, over the function `f`. Raises `ArgumentError` for other computations, and
    `CommandError` as the commands do; nothing is applied then.
    """
    recipe, found = Recipe("spmv", [product]), csr_product("spmv", product)
    assert isinstance(product, Reduction)
    untouched(recipe, product)
    size = max(each.dtype.bytes for each in found.entries)
    known = processor("spmv", cpu)
    lanes = min(known.lanes(size), MOST_LANES)
    with recipe.together():
        row, term = Iter(found.row), Iter(found.term)
        product.update.after(product.init, row)
        product.parallelize(row, balance=recipe.function[found.start.name])
        masked = all(known.costs.has_masks(each.dtype.bytes) for each in found.entries)
        remainder = "mask" if masked else "scalar"
        product.update.vectorize(term, lanes, combine=Combine.PRIVATE, remainder=remainder)
        for entry in found.entries:
            product.update.prefetch(recipe.function[entry.name], term, AHEAD // size)
    return recipe.commands()
