"""The recipe for reductions of rows, and chains of them: each row while it is in the cache."""

from __future__ import annotations

from tiramisu_py import Combine, Computation, Iter, Reduction, Target
from tiramisu_py.errors import ArgumentError
from tiramisu_py.public_calls import own_call_of
from tiramisu_py.queries import Access, Declared, Role, accesses
from tiramisu_py.recipes.cpu import MOST_LANES, Cpu
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe, processor
from tiramisu_py.records import dataclass

#: Additions that a core has under way: a latency of four cycles, two of them begun in each.
UNDER_WAY = 8


@own_call_of("tm.recipes")
def rows(result: Computation, *, cpu: Cpu | Target | str | None = None) -> AppliedCommands:
    """Schedule reductions over the last dimension, and what is computed from them, one row at a time.

    ::

        print(tm.recipes.rows(y))           # softmax: y[r, c] = power[r, c] * inverse[r]
            -->   r, c = tm.iters("r c")
                  y = f["y"]
                  y.parallelize(r)
                  y.vectorize(c, 16, remainder="mask")
                  y.store_nontemporal()
                  inverse = f["inverse"]
                  inverse.compute_at(y, r)
                  total = f["total"]
                  total.compute_at(y, r)
                  total.update.vectorize(c, 64, combine=tm.PRIVATE)
                  power = f["power"]
                  power.compute_at(y, r)
                  power.vectorize(c, 16, remainder="mask")
                  x = f["x"]
                  power.prefetch(x, r, 1)
                  top = f["top"]
                  top.compute_at(y, r)
                  top.update.vectorize(c, 64, combine=tm.PRIVATE)

    `result` is a value of each row (a reduction, a norm, logsumexp) or of each element (softmax, layer normalisation);
    the stages are all computations on which it depends. A row of each stage is kept until the next row. Threads share
    the rows. A reduction has as many partial results as additions may be under way (a latency of four cycles, two in
    each), in at most 64 lanes and half of the registers of `cpu` (default: this machine's); its terms are added in
    another order. If a row is read more than once, the last stage that reads it prefetches the next one, and the
    results of all elements go past the caches in calls whose arrays are too large for them. Returns the commands that
    were applied, to be pasted and edited, over the function `f`.

    Raises `ArgumentError` for stages of another form, with the reason, and the error of a command that is refused; then
    none of the commands is applied.
    """
    recipe = Recipe("rows", [result])
    cpu = processor("rows", cpu)
    chain = Chain.of(recipe, result)
    with recipe.together():
        in_rows(recipe, chain, cpu)
    return recipe.commands()


@dataclass(frozen=True)
class Chain:
    """The result, the stages that it depends on (each before its readers), and the iterators of rows by stage."""

    result: Computation
    stages: tuple[Computation, ...]
    count: int

    @classmethod
    def of(cls, recipe: Recipe, result: Computation) -> Chain:
        """The stages of a result; raises `ArgumentError` for those of another form."""
        computations = recipe.function.algorithm.computations
        names = _dependencies(computations[result.name], recipe)
        reductions = [computations[name] for name in (*names, result.name) if computations[name].is_reduction]
        if not reductions:
            raise ArgumentError(f"rows: {result} depends on no reduction: recipes.pointwise takes such computations")
        count = len(reductions[0].iterators)
        if count == 0:
            raise ArgumentError(
                f"rows: {reductions[0].name} has no rows, but one value: give a reduction with iterators of its own, "
                f"or split it into rows, {reductions[0].name}.update.rfactor(...)"
            )
        for name in (*names, result.name):
            _check(recipe, computations[name], count)
        others = [name for name in names if name in recipe.function.algorithm.outputs]
        if others:
            raise ArgumentError(
                f"rows: {others[0]} is an output, and {result} is computed from it: it takes one output, the last stage"
            )
        return cls(result, tuple(recipe.function[name] for name in names), count)


def _dependencies(declared: Declared, recipe: Recipe) -> list[str]:
    """The names of all computations that one depends on, each before those that read it."""
    computations, found = recipe.function.algorithm.computations, dict[str, None]()

    def visit(each: Declared) -> None:
        if each.group:
            raise ArgumentError(
                f"rows: {each.name} was declared together with computations that it depends on: it takes stages that "
                "depend on earlier ones alone"
            )
        for name in sorted({access.source for access in _reads(each)} & computations.keys() - {each.name}):
            if name not in found:
                visit(computations[name])
                found[name] = None

    visit(declared)
    return list(found)


def _reads(declared: Declared) -> list[Access]:
    return [access for part in (declared.expr, *declared.guards) for access in accesses(part)]


def _check(recipe: Recipe, declared: Declared, count: int) -> None:
    """Refuse a stage that is not of rows, that reads another row, or that has been scheduled."""
    name, iterators = declared.name, ", ".join(declared.point_iterators)
    if declared.is_reduction and (declared.in_order or len(declared.over) != 1 or len(declared.iterators) != count):
        why = "is ordered" if declared.in_order else f"has the iterators {iterators}"
        raise ArgumentError(
            f"rows: {name} {why}: it takes reductions over one iterator, the elements of a row, whose order is free, "
            f"with the same {count} iterators of rows"
        )
    if len(declared.iterators) not in (count, count + 1):
        raise ArgumentError(
            f"rows: {name} has the iterators {iterators}: it takes {count} for rows, and one for elements"
        )
    own = declared.point_iterators[:count]
    computations = recipe.function.algorithm.computations
    for access in _reads(declared):
        if access.source == name:
            raise ArgumentError(f"rows: {name} reads {access}, values of its own: it takes no recurrences")
        first = tuple(index.name for index in access.indices[:count] if isinstance(index, Iter))
        if access.source in computations and first != own:
            raise ArgumentError(f"rows: {name} reads {access}, another row: it takes stages of the same row")
    program = recipe.function.program
    loops = {statement.role: program.loop_names(statement) for statement in program.statements_of(name)}
    plain = {Role.INIT: declared.iterators, Role.UPDATE: declared.point_iterators}
    if declared.is_reduction and len(program.statements_of(name)) == 2:
        fresh = loops == plain
    else:
        fresh = list(loops.values()) == [declared.iterators]
    if not fresh:
        raise ArgumentError(f"rows: {name} has been scheduled already, or cut: give the recipe before other commands")


def in_rows(recipe: Recipe, chain: Chain, cpu: Cpu) -> None:
    """Apply the commands: all stages of a row before the next one."""
    result, algorithm = chain.result, recipe.function.algorithm
    declared = algorithm.computations[result.name]
    iterators = [Iter(name) for name in declared.iterators]
    outer, last = iterators[: chain.count], iterators[chain.count - 1]
    if isinstance(result, Reduction):
        result.update.after(result.init, last)
        result.update.parallelize(*outer)
    else:
        result.parallelize(*outer)
    ahead = _prefetching(recipe, chain)
    for stage in (result, *reversed(chain.stages)):
        if stage is not result:
            stage.compute_at(result, last)
        _in_vectors(recipe, stage, cpu, chain.count)
        if stage is result and len(iterators) > chain.count and result.name in algorithm.outputs:
            result.store_nontemporal()
        for source in ahead.get(stage.name, ()):
            loop = Iter(algorithm.computations[stage.name].iterators[chain.count - 1])
            statements = stage.update if isinstance(stage, Reduction) else stage
            statements.prefetch(recipe.function[source], loop, 1)


def _in_vectors(recipe: Recipe, stage: Computation, cpu: Cpu, count: int) -> None:
    """The loop of a stage over the elements of a row, in vectors; a reduction has several accumulators."""
    declared = recipe.function.algorithm.computations[stage.name]
    lanes = 1 << (min(cpu.lanes(stage.dtype.bytes), MOST_LANES).bit_length() - 1)  # a power of two, also of tuples
    if isinstance(stage, Reduction):
        stage.update.vectorize(Iter(declared.over[0]), accumulating(lanes, cpu), combine=Combine.PRIVATE)
    elif len(declared.iterators) > count:
        stage.vectorize(Iter(declared.iterators[-1]), lanes, remainder="mask")


def accumulating(lanes: int, cpu: Cpu) -> int:
    """The lanes of the partial results of a reduction: enough vectors to keep the adders busy."""
    vectors = min(UNDER_WAY, cpu.registers // 2)
    return min(lanes * vectors, MOST_LANES)


def _prefetching(recipe: Recipe, chain: Chain) -> dict[str, list[str]]:
    """By stage, the inputs of whose rows it is the last reader, of those that are read more than once."""
    algorithm = recipe.function.algorithm
    readers = dict[str, list[str]]()
    for stage in (*chain.stages, chain.result):
        declared = algorithm.computations[stage.name]
        own = declared.point_iterators
        for access in _reads(declared):
            plain = [index.name for index in access.indices if isinstance(index, Iter)]
            if access.source in algorithm.inputs and tuple(plain) == own and len(own) > chain.count:
                readers.setdefault(access.source, []).append(stage.name)
    found = dict[str, list[str]]()
    for source, names in readers.items():
        if len(set(names)) > 1:
            found.setdefault(names[-1], []).append(source)
    return found
