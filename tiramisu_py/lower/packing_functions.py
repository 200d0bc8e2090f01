"""The functions that pack the operands that are kept between calls.

::

    f(weights):                          -->   f_pack_weights(weights, weights_packed):
        weights_packed[..] = weights[..]           weights_packed[..] = weights[..]
        out[..] = .. weights_packed[..]        f(weights_packed):
                                                   out[..] = .. weights_packed[..]

The condition `operands_between_calls` says why the program may be cut in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import value_names
from tiramisu_py.algorithm.expressions import Expr, Iter
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import LoopFunction
from tiramisu_py.ir.arithmetic.remainders import as_remainders
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.lower.statements.templates import of_operands
from tiramisu_py.program.kept_operands import packed_from, packing, sizes_of
from tiramisu_py.program.program import Program
from tiramisu_py.program.statement import Statement


def without_packing(program: Program) -> Program:
    """The program without the statements that pack: its kept operands are arrays of the caller."""
    packs = {statement.name for source in packed_from(program) for statement in packing(program, source)}
    return _with_only(program, program.statements.keys() - packs) if packs else program


def with_packs(program: Program, function: LoopFunction, lowered: Callable[[Program], LoopFunction]) -> LoopFunction:
    """The function with those that pack its operands, each over the sizes on which it depends."""
    if not program.calls.kept:
        return function
    packs = tuple(_packing_function(program, source, lowered) for source in packed_from(program))
    return replace(
        function,
        companions=replace(function.companions, packs=packs),
        labels=replace(function.labels, documentation=(*function.labels.documentation, *map(_mention, packs))),
    )


def _packing_function(program: Program, source: str, lowered: Callable[[Program], LoopFunction]) -> LoopFunction:
    algorithm, name = program.algorithm, f"{program.algorithm.name}_pack_{source}"
    sizes = sizes_of(program, source)
    others = [param for param in algorithm.params if param not in sizes]
    context = sets.without_params(program.context, others).align_params(algorithm.param_space)
    kept = tuple(operand.storage for operand in program.calls.kept if operand.source == source)
    own = replace(algorithm, inputs={source: algorithm.inputs[source]}, outputs=kept)
    part = _with_only(program, {statement.name for statement in packing(program, source)})
    part = part.with_statement(*(_at_any(program, s, others) for s in part.statements.values()))
    part = part.with_(algorithm=own, calls=replace(part.calls, kept=(), narrowed=context, specialized=()))
    function = lowered(part)
    return replace(
        function,
        name=name,
        params=sizes,
        labels=replace(function.labels, documentation=tuple(_layouts(program, source))),
        companions=replace(function.companions, packs_for=algorithm.name),
        options=replace(function.options, nontemporal_above=None),
    )


def _at_any(program: Program, statement: Statement, others: Sequence[str]) -> Statement:
    """The statement at any values of the parameters on which, in the program's context, it does not depend."""
    instances = statement.instances.intersect_params(program.context.params())
    instances = sets.without_params(instances, others).align_params(statement.frame)
    return replace(statement, instances=instances.coalesce())


def _with_only(program: Program, names: Set[str]) -> Program:
    """Some statements of the program, in their order, over the arrays of kept operands that the caller passes."""
    kept = sorted((s for s in program.statements.values() if s.name in names), key=lambda s: program.positions[s.name])
    orders = tuple(order for order in program.orders if {order.before, order.after} <= names)
    arrays = [program.storages[operand.storage].buffer for operand in program.calls.kept]
    changed = {name: replace(program.buffers[name], argument=True) for name in arrays}
    part = program.with_(statements={s.name: s for s in kept}, orders=orders, buffers={**program.buffers, **changed})
    if sorted(part.statements, key=lambda name: part.positions[name]) != [s.name for s in kept]:
        raise CompilerDefect(f"{program.algorithm.name}: without what it packs, its statements are in another order")
    return part


# -- documentation


def _layouts(program: Program, source: str) -> Iterator[str]:
    """The arrays that are packed: their shapes, and the element of each value."""
    for operand in program.calls.kept:
        if operand.source != source:
            continue
        storage = program.storages[operand.storage]
        buffer = program.buffers[storage.buffer]
        names = _names(program, operand.storage)
        values: list[Expr] = [Iter(name) for name in names]
        forms = (simplified(of_operands(form, values)) for form in sets.outputs(storage.index))
        index = ", ".join(str(as_remainders(form)) for form in forms)
        extents = "".join(f"[{extent}]" for extent in buffer.extents)
        what = f"{storage.source}[{', '.join(names)}]"
        yield f"{buffer.name}{extents} of {buffer.dtype}: {buffer.name}[{index}] is {what}."
        yield f"Other elements of {buffer.name} are padding, and may have any value."


def _names(program: Program, storage: str) -> tuple[str, ...]:
    """Names of the indices of what a storage holds: those of the computation, or of the loops of the copy."""
    source = program.storages[storage].source
    count = len(value_names(program.algorithm.source(source)))
    if source not in program.algorithm.inputs:
        return value_names(program.algorithm.source(source))
    dims = next(statement.dims for statement in program.storing if statement.memory.target == storage)
    return dims if len(dims) == count else value_names(program.algorithm.source(source))


def _mention(pack: LoopFunction) -> str:
    """The line in a function's documentation about one that packs for it."""
    source, *arrays = [argument.name for argument in pack.arguments]
    sizes = f", for the same {', '.join(pack.params)}" if pack.params else ""
    return f"{', '.join(arrays)}: {source}, packed by {pack.name}{sizes}."
