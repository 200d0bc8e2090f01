"""Sums, and the pointwise computation that reads them: what recipes of products and convolutions take."""

from __future__ import annotations

from tiramisu_py import Computation, Iter, Reduction
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Role, accesses
from tiramisu_py.recipes.recipe import Recipe


def sums_of(recipe: Recipe, result: Computation) -> Reduction:
    """The sums that a computation reads, only at its own iterators; raises `ArgumentError` for other computations."""
    algorithm, name = recipe.function.algorithm, recipe.name
    if isinstance(result, Reduction):
        raise ArgumentError(
            f"{name}: {result} is the sum itself: give the computation that reads it, which adds a bias, say, or "
            "copies it"
        )
    declared = algorithm.computations[result.name]
    reads = [access for access in accesses(declared.expr) if isinstance(recipe.function[access.source], Reduction)]
    own = tuple(Iter(each).key() for each in declared.iterators)
    if not reads or any(access.source != reads[0].source for access in reads):
        raise ArgumentError(f"{name}: {result} reads {len(reads)} sums: it takes a computation that reads one")
    source = reads[0].source
    for access in reads:
        if tuple(index.key() for index in access.indices) != own:
            raise ArgumentError(f"{name}: {result} reads {access}: it takes sums read at {result}'s own iterators")
    if len(readers(recipe, source)) > 1 or source in algorithm.outputs:
        raise ArgumentError(f"{name}: {source} is not only read by {result}: it keeps the sums for {result} alone")
    total = recipe.function[source]
    assert isinstance(total, Reduction)
    if algorithm.computations[source].iterators != declared.iterators:
        raise ArgumentError(f"{name}: {result} and {source} have other iterators: declare both with the same")
    return total


def readers(recipe: Recipe, source: str) -> list[str]:
    """The computations that read a source."""
    computations = recipe.function.algorithm.computations
    return [name for name, each in computations.items() if any(a.source == source for a in accesses(each.expr))]


def untouched(recipe: Recipe, given: Computation) -> None:
    """Refuse a computation that has been scheduled already."""
    program = recipe.function.program
    declared = recipe.function.algorithm.computations[given.name]
    expected = {Role.VALUE: declared.iterators}
    if isinstance(given, Reduction):
        expected = {Role.INIT: declared.iterators, Role.UPDATE: declared.point_iterators}
    statements = program.statements_of(given.name)
    if len(statements) != len(expected) or {s.role: program.loop_names(s) for s in statements} != expected:
        raise ArgumentError(f"{recipe.name}: {given} has been scheduled already: give the recipe before other commands")
