"""Chains of rows: results that depend on reductions of their row, and the stages between them, for recipes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tiramisu_py import Computation, Iter, Reduction
from tiramisu_py.errors import ArgumentError
from tiramisu_py.queries import Access, Algorithm, Declared, Role, accesses
from tiramisu_py.recipes.recipe import Recipe
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class Chain:
    """The results of rows, sums of their columns, the stages before them, and how many iterators rows have.

    Results are in the order of their declarations, and each stage stands before its readers.
    """

    results: tuple[Computation, ...]
    columns: tuple[Reduction, ...]
    stages: tuple[Computation, ...]
    count: int

    @classmethod
    def of(cls, recipe: Recipe) -> Chain:
        """The chain that ends with the computations of a recipe; raises `ArgumentError` for those of another form."""
        algorithm, given = recipe.function.algorithm, {each.name for each in recipe.stages}
        ends = [name for name in algorithm.computations if name in given]
        stages = _stages(algorithm, ends)
        made = {name: algorithm.computations[name] for name in (*stages, *ends)}
        columns = [name for name in ends if is_of_columns(made[name])]
        reductions = [each for name, each in made.items() if each.is_reduction and name not in columns]
        if not reductions:
            raise ArgumentError(_without_reductions(algorithm, ends))
        count = len(reductions[0].iterators)
        if count == 0:
            raise ArgumentError(
                f"rows: {reductions[0].name} has no rows, but one value: give a reduction with iterators of its own, "
                f"or split it into rows, {reductions[0].name}.update.rfactor(...)"
            )
        for each in made.values():
            _check_form(each, count)
            _check_reads(each, count, made)
            _check_loops(recipe, each)
        results, of_columns, before = (
            tuple(recipe.function[name] for name in part)
            for part in ([name for name in ends if name not in columns], columns, stages)
        )
        return cls(results, tuple(each for each in of_columns if isinstance(each, Reduction)), before, count)


def is_of_columns(declared: Declared) -> bool:
    """Whether a computation is a sum over rows: its terms are the elements of arrays, rows first."""
    across = (*declared.over, *declared.iterators)
    plain = [tuple(index.name for index in each.indices if isinstance(index, Iter)) for each in reads(declared)]
    return declared.is_reduction and len(declared.iterators) == 1 and across in plain


def axes(declared: Declared) -> tuple[str, ...]:
    """The iterators of a computation of a chain, those of rows first."""
    return (*declared.over, *declared.iterators) if is_of_columns(declared) else declared.point_iterators


def reads(declared: Declared) -> list[Access]:
    """The accesses of the expression and the conditions of a computation."""
    return [access for part in (declared.expr, *declared.guards) for access in accesses(part)]


def _stages(algorithm: Algorithm, ends: Sequence[str]) -> list[str]:
    """The names of the computations that results depend on and nothing else reads, each before those that read it."""
    found = dict[str, None]()
    for name in ends:
        _add_dependencies(algorithm, algorithm.computations[name], found)
    stages = [name for name in found if name not in ends]
    outputs = [name for name in stages if name in algorithm.outputs]
    if outputs:
        raise ArgumentError(
            f"rows: {outputs[0]} is an output, and {ends[-1]} is computed from it: give all outputs of the rows, "
            f"recipes.rows({', '.join((*outputs, *ends))})"
        )
    together = {*stages, *ends}
    readers = {
        name: {each for each, made in algorithm.computations.items() if name in {read.source for read in reads(made)}}
        for name in stages
    }
    while outside := {name for name in together & readers.keys() if not readers[name] <= together}:
        together -= outside
    return [name for name in stages if name in together]


def _without_reductions(algorithm: Algorithm, ends: Sequence[str]) -> str:
    """The refusal of results without a reduction to be put in their rows: there is none, or others read it, too."""
    found = dict[str, None]()
    for name in ends:
        _add_dependencies(algorithm, algorithm.computations[name], found)
    for name in (each for each in found if algorithm.computations[each].is_reduction):
        for reader in algorithm.computations.values():
            if reader.name not in {*found, *ends} and name in {read.source for read in reads(reader)}:
                return (
                    f"rows: {name}, which {ends[-1]} depends on, is read by {reader.name}, too: give results that are "
                    f"all its readers, recipes.rows({', '.join((*ends, reader.name))})"
                )
    if is_of_columns(algorithm.computations[ends[-1]]):
        return (
            f"rows: {ends[-1]} is a sum of columns, and no sum of a row is before it: recipes.columns takes such sums"
        )
    return f"rows: {ends[-1]} depends on no reduction: recipes.pointwise takes such computations"


def _add_dependencies(algorithm: Algorithm, declared: Declared, found: dict[str, None]) -> None:
    """Add the names of all computations that one depends on, each before those that read it."""
    if declared.group:
        raise ArgumentError(
            f"rows: {declared.name} was declared together with computations that it depends on: it takes stages that "
            "depend on earlier ones alone"
        )
    sources = {access.source for access in reads(declared)} & algorithm.computations.keys()
    for name in sorted(sources - {declared.name} - found.keys()):
        _add_dependencies(algorithm, algorithm.computations[name], found)
        found[name] = None


def _check_form(declared: Declared, count: int) -> None:
    """Refuse a stage that is no value of a row or an element, nor a reduction of a row or a column in any order."""
    name, iterators = declared.name, ", ".join(declared.point_iterators)
    of_rows = len(declared.over) == 1 and len(declared.iterators) == count
    of_columns = len(declared.over) == count and is_of_columns(declared)
    if declared.is_reduction and (declared.in_order or not (of_rows or of_columns)):
        why = "is ordered" if declared.in_order else f"has the iterators {iterators}"
        raise ArgumentError(
            f"rows: {name} {why}: it takes reductions over one iterator, the elements of a row, whose order is free, "
            f"with the same {count} iterators of rows"
        )
    if not declared.is_reduction and len(declared.iterators) not in (count, count + 1):
        raise ArgumentError(
            f"rows: {name} has the iterators {iterators}: it takes {count} for rows, and one for elements"
        )


def _check_reads(declared: Declared, count: int, together: Collection[str]) -> None:
    """Refuse a stage that reads itself, or another row of those that are computed `together`."""
    own = axes(declared)[:count]
    for access in reads(declared):
        if access.source == declared.name:
            raise ArgumentError(f"rows: {declared.name} reads {access}, values of its own: it takes no recurrences")
        first = tuple(index.name for index in access.indices[:count] if isinstance(index, Iter))
        if access.source in together and first != own:
            raise ArgumentError(f"rows: {declared.name} reads {access}, another row: it takes stages of the same row")


def _check_loops(recipe: Recipe, declared: Declared) -> None:
    """Refuse a stage that has been scheduled."""
    program = recipe.function.program
    found = {statement.role: program.loop_names(statement) for statement in program.statements_of(declared.name)}
    plain = {Role.INIT: declared.iterators, Role.UPDATE: declared.point_iterators}
    whole = declared.is_reduction and len(program.statements_of(declared.name)) == 2
    if found != plain if whole else list(found.values()) != [declared.iterators]:
        raise ArgumentError(
            f"rows: {declared.name} has been scheduled already, or cut: give the recipe before other commands"
        )
