"""A kernel launched on handles: its values become computations of their function."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tiramisu_py.algorithm.declarations import Location, Origin
from tiramisu_py.algorithm.domains.affine import Affine, NotAffine
from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.types import weak_float
from tiramisu_py.errors import DeclarationError, TiramisuError
from tiramisu_py.function import Function
from tiramisu_py.function.arrays import ProgramArray, ProgramValue, unfilled
from tiramisu_py.function.handles.computations import Computation, Indexed
from tiramisu_py.language.ir.nodes import BlockKernel, BlockType, BlockValue, Instruction
from tiramisu_py.language.ir.peephole import simplified
from tiramisu_py.language.ir.scalars import block_type, short
from tiramisu_py.language.tracing.source import BlockSource
from tiramisu_py.language.tracing.tracer import ArrayType, traced
from tiramisu_py.language.values.distinct_stores import filled_by_places
from tiramisu_py.language.values.groups import in_order, sources_of
from tiramisu_py.language.values.implied_masks import without_implied_masks
from tiramisu_py.language.values.inlined_loads import with_loads
from tiramisu_py.language.values.meanings import Bound
from tiramisu_py.language.values.parts import PartedSum, in_parts
from tiramisu_py.language.values.programs import Programs
from tiramisu_py.language.values.run_stores import filled_by_runs
from tiramisu_py.language.values.stores import Filled, StoreInstances, executions, filled, instances_of
from tiramisu_py.language.values.swizzles import check_extents
from tiramisu_py.language.values.uses import walked
from tiramisu_py.program.fresh_names import names_in
from tiramisu_py.program.loops import Combine
from tiramisu_py.records import dataclass


@dataclass(frozen=True, eq=False)
class KernelRun:
    """The programs of one launch, as part of a function: ``run["acc"]`` is the computation of a variable.

    `ir` is the block IR, `outputs` are the arrays that the programs fill. `stored` is what programs store: of sums in
    parts, `sums`, these parts.
    """

    function: Function
    ir: BlockKernel
    names: Mapping[str, str]
    outputs: tuple[str, ...]
    programs: Programs
    values: tuple[ProgramValue, ...]
    stores: Mapping[str, Sequence[StoreInstances]]
    grid: tuple[Expr, ...]
    stored: tuple[str, ...]
    sums: tuple[PartedSum, ...]

    def __getitem__(self, name: str) -> Computation:
        """The computation of a variable of the kernel, or of an array that it fills; raises `DeclarationError`."""
        own = self.names.get(name, name if name in self.outputs else "")
        if own not in self.function.program.algorithm.computations:
            known = ", ".join(dict.fromkeys([*self.names, *self.outputs]))
            raise DeclarationError(f"the run of {self.ir.name} has no value called {name!r}; it has {known}")
        found: Computation = self.function[own]
        return found

    def is_atomic(self, name: str) -> bool:
        """Whether programs add to the elements of an array in any order."""
        return self.combine_of(name) is not None

    def combine_of(self, name: str) -> Combine | None:
        """How programs add to the elements of an array in any order: ATOMIC or LOCK; None where they do not."""
        given = {each.site.combine for each in self.stores.get(name, ())}
        return next((each for each in (Combine.ATOMIC, Combine.LOCK) if each.value in given), None)

    def combine_of_blocks(self, name: str) -> Combine | None:
        """How blocks of a GPU add to the elements of an array; None where one block has all that is added to one.

        In the order of their numbers along one axis of the grid, if nothing else is stored.
        """
        found, value = self.combine_of(name), next((each for each in self.values if each.name == name), None)
        if found is not None or value is None or len(self.stored) != 1:
            return found
        along = [each for each in value.over if each.name in self.programs.axes.programs]
        in_order = all(each.site.combine == Combine.ORDERED.value for each in self.stores.get(name, ()))
        return Combine.ORDERED if in_order and len(along) == 1 else None

    def __repr__(self) -> str:
        return f"<run of {self.ir.name} in {self.function.name}>"


@dataclass(frozen=True, eq=False)
class Weak:
    """A scalar that takes the type of the other operand, as Python's numbers do."""

    scalar: Expr
    type: ClassVar[BlockType] = block_type(weak_float)


def launched(function: Function, source: BlockSource, given: Mapping[str, Any], grid: Sequence[Expr]) -> KernelRun:
    """Add the values of a kernel's programs to a function; raises `DeclarationError` with the line of what is wrong."""
    bound, kinds = _bound(function, source, given)
    kernel = simplified(traced(source, kinds, [str(each) for each in grid]))
    _check_arrays(function, source, kernel, given)
    algorithm = function.program.algorithm
    taken = names_in(function.program) | set(function._arrays)
    file = os.path.basename(source.file)

    def origin(line: int) -> Origin:
        at = line - source.first
        text = source.lines[at].strip() if 0 <= at < len(source.lines) else ""
        return Origin(source.name, Location(file, line), text)

    programs = Programs(kernel, bound, grid, function.owner, taken, algorithm.params, origin)
    programs.run()
    _check_assumed(function, programs)
    check_extents(algorithm, programs.swizzles, programs.grid, lambda operand: programs.meaning(operand)(()))
    sites: dict[str, list[Any]] = {}
    for site in programs.sites:
        sites.setdefault(site.array, []).append(site)
    outputs, stored, sums, stores = _stored_values(function, programs, bound, sites)
    stored = with_loads(algorithm, programs, stored)
    if not outputs:
        raise DeclarationError(f"{source.name} stores nothing: tl.store(place, value)")
    needed = [without_implied_masks(algorithm, each) for each in _needed(programs.values, stored)]
    try:
        function._with_program_values(in_order([*needed, *stored, *(each.total for each in sums)]))
    except RecursionError:
        raise DeclarationError(f"{source.name} is too deep") from None
    names = {name: own for name, own in programs.named.items() if own}
    return KernelRun(
        function,
        kernel,
        names,
        tuple(each.name for each in outputs),
        programs,
        (*needed, *stored),
        stores,
        tuple(grid),
        tuple(each.name for each in stored),
        tuple(sums),
    )


def _stored_values(
    function: Function, programs: Programs, bound: Mapping[str, Bound], sites: Mapping[str, list[Any]]
) -> tuple[list[ProgramValue], list[ProgramValue], list[PartedSum], dict[str, list[StoreInstances]]]:
    """The values that programs fill: outputs, what is stored for them, sums of parts; and the stores by array."""
    algorithm = function.program.algorithm
    outputs: list[ProgramValue] = []
    stored: list[ProgramValue] = []
    sums: list[PartedSum] = []
    stores: dict[str, list[StoreInstances]] = {}
    for name, own in sites.items():
        declared = function._arrays[bound[name].name]
        array = Filled(bound[name].name, declared.dtype, declared.shape, declared.partial)
        by_places = filled_by_places(algorithm, programs, array, own)
        if by_places is not None:
            stores[array.name] = [by_places[1]]
            outputs.append(by_places[0])
            stored.append(by_places[0])
            continue
        by_runs = filled_by_runs(algorithm, programs, array, own)
        if by_runs is not None:
            stores[array.name] = []
            outputs.append(by_runs)
            stored.append(by_runs)
            continue
        every = [(site, executions(algorithm, programs, array, site)) for site in own]
        stores[array.name] = [instances_of(array, site, whole, algorithm) for site, whole in every]
        value = filled(algorithm, array, stores[array.name])
        _check_order(programs, value)
        parted = in_parts(programs, value, stores[array.name][0])
        if parted is not None:
            sums.append(parted)
            stores[parted.parts.name] = [parted.stores]
        outputs.append(value if parted is None else parted.total)
        stored.append(value if parted is None else parted.parts)
    return outputs, stored, sums, stores


def _bound(
    function: Function, source: BlockSource, given: Mapping[str, Any]
) -> tuple[dict[str, Bound], dict[str, Any]]:
    """The binding of each argument, and its kind for the reader of the source."""
    bound: dict[str, Bound] = {}
    kinds: dict[str, Any] = {}
    for name, each in given.items():
        kinds[name] = each
        if isinstance(each, Indexed):
            if each._function is not function:  # type: ignore[attr-defined]
                raise DeclarationError(f"{each} belongs to another function than {function.name}")
            extents = each.shape if isinstance(each, ProgramArray) else each._extents()
            dtype = each.dtype  # type: ignore[attr-defined]
            bound[name] = Bound(each.name, tuple(extents), dtype, writable=isinstance(each, ProgramArray))
            kinds[name] = ArrayType(short(dtype), len(extents))
        elif isinstance(each, Weak):
            bound[name] = Bound(name, scalar=each.scalar)
            kinds[name] = Weak.type
        elif isinstance(each, Expr):
            bound[name] = Bound(name, scalar=each)
            kinds[name] = block_type(each.dtype)
    return bound, kinds


def _check_arrays(function: Function, source: BlockSource, kernel: BlockKernel, given: Mapping[str, Any]) -> None:
    """Refuse to store to what is no array of programs, and to read what a program of this launch stores."""
    touched: dict[str, dict[str, int]] = {"load": {}, "store": {}}
    pointers = {n.result: n for n in walked(kernel.body) if isinstance(n, Instruction) and n.op == "getelementptr"}
    for node in walked(kernel.body):
        if isinstance(node, Instruction) and node.operands and node.operands[0] in pointers:
            array = pointers[node.operands[0]].operands[0]
            assert isinstance(array, BlockValue)
            kind = "load" if node.result is not None else "store"
            touched[kind].setdefault(array.name, node.line)
    names: dict[str, str] = {}
    for name, each in given.items():
        if isinstance(each, Indexed):
            names[name] = each.name
    written = {names[name]: line for name, line in touched["store"].items()}
    for name, line in touched["store"].items():
        array = given[name]
        if not isinstance(array, ProgramArray):
            raise DeclarationError(
                f"{_at(source, line)} stores to {names[name]}, which is no array that programs fill: declare it with "
                f"f.array({names[name]!r}, ...)"
            )
        if array.is_filled:
            raise DeclarationError(f"{_at(source, line)} stores to {names[name]}, which another launch fills already")
    for name, line in touched["load"].items():
        if names[name] in written:
            raise DeclarationError(
                f"{_at(source, line)} reads {names[name]}, which programs of this launch store: a program does not see "
                "what another one stores; read the array that it is made of, or launch a second kernel"
            )
        if isinstance(given[name], ProgramArray) and not given[name].is_filled:
            raise DeclarationError(f"{_at(source, line)}: {unfilled(given[name])}")
        filled_one = function.program.algorithm.computations.get(names[name])
        if isinstance(given[name], ProgramArray) and filled_one is not None and filled_one.shape is None:
            indices = ", ".join(filled_one.iterators)
            raise DeclarationError(
                f"{_at(source, line)} reads {names[name]}, whose elements are kept as a table says: read them in a "
                f"computation, as {names[name]}[{indices}]"
            )


def _at(source: BlockSource, line: int) -> str:
    at = line - source.first
    text = source.lines[at].strip() if 0 <= at < len(source.lines) else ""
    return f"{os.path.basename(source.file)}:{line}, in {source.name}, `{text}`"


def _check_assumed(function: Function, programs: Programs) -> None:
    """Refuse a `tl.assume` that does not follow from what the function assumes."""
    algorithm = function.program.algorithm
    space = algorithm.frame(None, ())
    for operand, origin in programs.assumed:
        condition = programs.meaning(operand)(())
        try:
            known = Affine(space, {}).condition(condition).params()
        except (NotAffine, TiramisuError):
            raise DeclarationError(f"{origin} assumes {condition}, which is no condition on sizes") from None
        if not algorithm.context.params().is_subset(known):
            raise DeclarationError(f'{origin} assumes {condition}: say so of {function.name}, assume="{condition}"')


def _check_order(programs: Programs, value: ProgramValue) -> None:
    """Refuse sums in the order of programs whose order `tl.swizzle2d` changes."""
    over = {each.name for each in value.over}
    for swizzle in programs.swizzles:
        if value.ordered and over & {programs.axes.program(axis) for axis in swizzle.axes}:
            raise DeclarationError(
                f"{swizzle.origin}: programs add to {value.name} in the order of their numbers, combine=tm.ORDERED, "
                "and tl.swizzle2d changes it: give combine=tm.ATOMIC, or add up along the third axis of the grid"
            )


def _needed(values: Sequence[ProgramValue], outputs: Sequence[ProgramValue]) -> list[ProgramValue]:
    """The values that outputs are made of; others are never computed."""
    groups = in_order([*values, *outputs])
    known = {each.name for each in outputs}
    found: list[ProgramValue] = []
    for group in reversed(groups):
        if any(each.name in known for each in group):
            known |= {name for each in group for name in sources_of(each)}
            found += [each for each in group if each not in outputs]
    order = {each.name: k for k, each in enumerate(values)}
    return sorted(found, key=lambda each: order[each.name])
