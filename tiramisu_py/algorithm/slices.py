"""Slices of computations as outputs: ``heat[T, i]`` is a computation that copies the last time level."""

from __future__ import annotations

from tiramisu_py import sets
from tiramisu_py.algorithm.affine import Affine, NotAffine
from tiramisu_py.algorithm.declarations import Algorithm, Computation, Location
from tiramisu_py.algorithm.expressions import Access, Iter
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.errors import DeclarationError


def declare_slice(algorithm: Algorithm, wanted: Access, owner: object, location: Location | None) -> Computation:
    """The computation ``<source>_out[free iterators]`` that copies ``source[indices]`` wherever that value exists.

    Raises `DeclarationError` where an index is not affine.
    """
    source = algorithm.computations[wanted.source]
    name = f"{wanted.source}_out"
    if name in algorithm.computations or name in algorithm.inputs:
        raise DeclarationError(f"the output {wanted} would be called {name}, which exists already")
    iterators = tuple(dict.fromkeys(n.name for index in wanted.indices for n in walk(index) if isinstance(n, Iter)))
    space = algorithm.frame(name, iterators)
    reader = Affine(space)
    try:
        forms = [reader.single(index) for index in wanted.indices]
    except NotAffine as error:
        raise DeclarationError(f"the output {wanted} has an index that is not affine: {error.part}") from None
    target = sets.function(space, source.name, forms)
    domain = sets.with_dims(sets.preimage(source.domain, target), iterators)
    access = Access(wanted.source, wanted.indices, source.dtype, owner)
    return Computation(name, source.dtype, iterators, domain, domain, access, location=location)
