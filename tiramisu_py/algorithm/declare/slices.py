"""Slices of computations as outputs: ``heat[T, i]`` is a computation that copies the last time level."""

from __future__ import annotations

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Location, Written
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.domains.references import check_references
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import DeclarationError


def declare_slice(
    algorithm: Algorithm, wanted: Access, name: str, owner: object, location: Location | None
) -> Computation:
    """The computation ``name[free iterators]`` that copies ``source[indices]`` wherever that value exists.

    An index without iterators may be outside the source; it is read nevertheless, so that `check` reports it. Raises
    `DeclarationError` if an index is not affine.
    """
    source = algorithm.computations[wanted.source]
    if source.is_inferred:
        raise DeclarationError(
            f"the output {wanted} is a slice of {source.name}, whose domain is to be inferred from what is read: "
            f"declare a computation of the values that you want, or give {source.name} a domain"
        )
    free = [list(dict.fromkeys(n.name for n in walk(index) if isinstance(n, Iter))) for index in wanted.indices]
    iterators = tuple(dict.fromkeys(name for names in free for name in names))
    check_references(algorithm, f"the output {wanted}", wanted, iterators, owner)
    space = algorithm.frame(name, iterators)
    reader = Affine(space)
    try:
        forms = [reader.single(index) for index in wanted.indices]
    except NotAffine as error:
        raise DeclarationError(f"the output {wanted} has an index that is not affine: {error.part}") from None
    target = sets.function(space, source.name, forms)
    given = [axis for axis, names in enumerate(free) if not names]
    points = sets.section(source.domain, target, given).intersect_params(algorithm.context)
    domain = sets.with_dims(points, iterators)
    written = Written(is_slice=True)
    access = Access(wanted.source, wanted.indices, source.dtype, owner)
    return Computation(name, source.dtype, iterators, domain, domain, access, location=location, written=written)
