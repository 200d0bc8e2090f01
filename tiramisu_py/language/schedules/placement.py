"""Where the values of programs are computed: each in the loops of its program, as the source has them.

The loops over the elements of an array that programs fill are cut into programs and axes of blocks; everything else is
computed inside of the innermost loop over programs, and what belongs to an iteration of a loop of the kernel in that
iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from tiramisu_py.algorithm.expressions import Const, Expr, Iter
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.errors import CommandError
from tiramisu_py.function.arrays import ProgramValue
from tiramisu_py.function.handles.computations import Computation, Reduction, Selection
from tiramisu_py.language.launched import KernelRun
from tiramisu_py.language.values.forms import linear_terms
from tiramisu_py.language.values.groups import sources_of
from tiramisu_py.language.values.stores import StoreInstances
from tiramisu_py.program.loops import Combine
from tiramisu_py.records import dataclass

#: Computes a value in a loop of another's statement, which it returns, or leaves it where it is.
Inside = Callable[[ProgramValue], tuple[Selection, Iter] | None]
#: The loop of one iteration around blocks that are all counted.
ONCE = "p_once"


@dataclass(frozen=True, eq=False)
class PlacedValues:
    """The loops over programs, outermost first, and the values in the order in which they are computed.

    `within` says in which loop of which statement a value is computed, if it is in one of another's.
    """

    programs: tuple[Iter, ...]
    main: Computation
    values: tuple[ProgramValue, ...]
    within: Mapping[str, tuple[Selection, Iter]] = field(default_factory=dict)


def placed(run: KernelRun, apart: bool = False, inside: Inside = lambda value: None) -> PlacedValues:
    """Compute each value of a run in the loops of its program; what is no box of programs stays in loops of its own.

    With `apart` atomic sums begin in loops of their own, before any program adds to them, and blocks that are counted
    are inside of a loop that is not. `inside` may compute a value further inside than the loop that it belongs to.
    """
    outputs = [value for value in run.values if value.name in run.stored]
    loops = {value.name: _programs_of(run, value, apart) for value in outputs}
    main_value = max(outputs, key=lambda each: len(loops[each.name]))
    main, programs = run.function[main_value.name], loops[main_value.name]
    whole = PlacedValues(programs, main, run.values)
    if not programs:
        for value in run.values:
            _loops_first(run, value)
        return whole
    for value in outputs:
        if value is not main_value and list(map(str, loops[value.name])) == list(map(str, programs)):
            statement(run, value).fuse(main_statement(whole), programs[-1])
    for value in outputs:
        free = [each for each in loops[value.name] if each.name not in {over.name for over in value.over}]
        handle = run.function[value.name]
        if isinstance(handle, Reduction) and free and not (apart and run.combine_of_blocks(value.name)):
            handle.init.compute_at(handle.update, free[-1])
    anchors: dict[tuple[str, ...], Selection] = {}
    unstored = [value for value in reversed(run.values) if value.name not in run.stored]
    return replace(
        whole, within={value.name: inside(value) or _place(run, value, whole, anchors) for value in unstored}
    )


def statement(run: KernelRun, value: ProgramValue) -> Selection:
    """The statement that reads for a value: the update of a reduction, or the computation."""
    handle = run.function[value.name]
    return handle.update if isinstance(handle, Reduction) else handle


def loop_names(run: KernelRun, value: ProgramValue) -> list[str]:
    """The names of the loops of the kernel around a value, outermost first, those of a reduction over them included."""
    known = run.programs.axes.loops
    return [each.name for each in (*value.domain, *value.over) if each.name in known]


def axes_of(run: KernelRun, value: ProgramValue) -> list[Iter]:
    """The iterators of the axes of a block."""
    around = {*run.programs.axes.loops, *run.programs.axes.programs}
    return [each for each in value.domain if each.name not in around]


def block_axes(run: KernelRun, value: ProgramValue, part: Selection) -> list[Iter]:
    """The axes of a block, as the loops of its statement are called: of an array that is cut, those of its blocks."""
    program = run.function.program
    statement_ = program.statements[part.statement_names()[-1]]
    around = {*run.programs.axes.programs, *run.programs.axes.loops, *(each.name for each in value.over)}
    around |= {ONCE, *serial_axes(value), *(each.by_value for each in run.stores.get(value.name, ()))}
    return [Iter(name) for name in program.loop_names(statement_) if name not in around]


def extent_of_axis(run: KernelRun, value: ProgramValue, axis: Iter) -> int:
    """The extent of an axis of a block; 0 where it is no constant."""
    for each, extent in (*value.domain.items(), *value.over.items()):
        if each.name == axis.name and isinstance(extent, int | Const):
            return extent if isinstance(extent, int) else int(extent.value)
    for stores in run.stores.get(value.name, ()):
        for own, extent in stores.bounds.items():
            if own.name == axis.name and isinstance(extent, int):
                return extent
    return 0


def serial_axes(value: ProgramValue) -> set[str]:
    """The axes along which a value is made of itself, as sums of all elements before are."""
    own = list(value.domain)
    found: set[str] = set()
    for access in accesses(value.expr):
        if access.source == value.name:
            pairs = zip(own, access.indices, strict=True)
            found |= {each.name for each, index in pairs if not index.same_as(each)}
    return found


def _programs_of(run: KernelRun, value: ProgramValue, apart: bool) -> tuple[Iter, ...]:
    """Cut the loops of an array into programs and axes; the loops over programs."""
    stores = run.stores[value.name]
    if len(stores) != 1:
        return ()
    handle, found = run.function[value.name], cut_loops(run, value, stores[0])
    if found is None:
        return ()
    outer, inner = found
    if isinstance(handle, Reduction):
        over = [each for each in value.over if each.name in run.programs.axes.programs]
        handle.update.reorder(*outer, *over, *inner)
        if outer:
            handle.init.reorder(*outer, *inner)
        return (*outer, *over)
    if apart and (once := in_one_iteration(run, value, outer, inner)) is not None:
        outer.insert(0, once)
    if outer:
        handle.reorder(*outer, *inner)
    for swizzle in run.programs.swizzles:
        rows, columns = (Iter(run.programs.axes.programs[axis]) for axis in swizzle.axes)
        if {each.name for each in outer} == {rows.name, columns.name}:
            return _in_groups(handle, rows, columns, swizzle.group, Iter(run.programs.axes.group(swizzle.axes[0])))
    return tuple(outer)


def cut_loops(run: KernelRun, value: ProgramValue, store: StoreInstances) -> tuple[list[Iter], list[Iter]] | None:
    """Cut the loops over the elements of an array into those over programs and over axes of blocks.

    None where the elements of a program are no box of blocks.
    """
    handle, outer, inner = run.function[value.name], list[Iter](), list[Iter]()
    grid = run.programs.axes.programs
    cuts = [_cut(store, place) for place in store.places]
    if any(each is None for each in cuts):
        return None
    for iterator, cut in zip(value.domain, cuts, strict=True):
        assert cut is not None
        program, axis, extent = cut
        if iterator.name in grid:
            outer.append(iterator)
        elif program is None:
            inner.append(iterator)
        elif axis is None:
            handle.split(iterator, 1, program, axis_of_one := Iter(f"{program.name}_one"))
            outer.append(program)
            inner.append(axis_of_one)
        else:
            handle.split(iterator, extent, program, axis)
            outer.append(program)
            inner.append(axis)
    outer.sort(key=lambda each: grid.index(each.name))
    return outer, inner


def in_one_iteration(run: KernelRun, value: ProgramValue, outer: list[Iter], inner: list[Iter]) -> Iter | None:
    """A loop of one iteration around the elements of a sum for the last block, if all programs add to them.

    Its counted blocks are inside of that loop. None where there is another one, or where nothing is counted.
    """
    parted = next((each for each in run.sums if value in (each.parts, each.total)), None)
    if parted is None or parted.combine is not Combine.LAST_BLOCK or not inner:
        return None
    extent = extent_of_axis(run, value, inner[0])
    if {each.name for each in outer} - {each.name for each in parted.total.over} or not extent:
        return None
    once, own = Iter(ONCE), Iter(f"{inner[0].name}_own")
    run.function[value.name].split(inner[0], extent, once, own)
    inner[0] = own
    return once


def _in_groups(handle: Computation, rows: Iter, columns: Iter, size: int, group: Iter) -> tuple[Iter, ...]:
    """Programs in the order of ``tl.swizzle2d``: groups of rows, and in each of them column by column."""
    handle.split(rows, size, group, rows)
    handle.reorder(group, columns, rows)
    return group, columns, rows


def _cut(store: StoreInstances, place: Expr) -> tuple[Iter | None, Iter | None, int] | None:
    """The axis of the grid, the axis of the block and the extent of it of which an index of an element consists."""
    terms, constant = linear_terms(place)
    names = [each.name for each in store.bounds]
    programs = [(e, c) for e, c in terms if isinstance(e, Iter) and names.index(e.name) < store.programs]
    axes = [(e, c) for e, c in terms if isinstance(e, Iter) and names.index(e.name) >= store.programs]
    if constant or len(programs) + len(axes) != len(terms) or len(programs) > 1 or len(axes) > 1:
        return None
    program = programs[0] if programs else None
    axis = axes[0] if axes else None
    if axis is not None and axis[1] != 1:
        return None
    if program is None:
        return None, None if axis is None else Iter(axis[0].name), 1
    if axis is None:
        return (Iter(program[0].name), None, 1) if program[1] == 1 else None
    extents = {each.name: extent for each, extent in store.bounds.items()}
    if extents[axis[0].name] != program[1]:
        return None
    return Iter(program[0].name), Iter(axis[0].name), program[1]


def _place(
    run: KernelRun, value: ProgramValue, whole: PlacedValues, anchors: dict[tuple[str, ...], Selection]
) -> tuple[Selection, Iter]:
    """Compute a value in the innermost loop that it belongs to, which is returned; values are placed after those that
    read them.
    """
    handle, loops = run.function[value.name], tuple(loop_names(run, value))
    own = [each.name for each in value.domain]
    carries = value.name in sources_of(value) or any(each not in own for each in loops)
    if loops and not carries and loops in anchors:
        handle.compute_at(anchors[loops], Iter(loops[-1]))
        return anchors[loops], Iter(loops[-1])
    outer = next(
        (anchors[loops[:k]] for k in range(len(loops), 0, -1) if loops[:k] in anchors and k < len(loops)), None
    )
    depth = max((k for k in range(len(loops)) if loops[:k] in anchors), default=0)
    within = (main_statement(whole), whole.programs[-1])
    if outer is not None and set(loops[:depth]) <= set(own):
        within = (outer, Iter(loops[depth - 1]))
    handle.compute_at(*within)
    _loops_first(run, value)
    if not loops:
        return within
    reading = statement(run, value)
    if value.name in sources_of(value) and loops[-1] in own:
        handle.fold(Iter(loops[-1]), 1 if is_replaced(run, value) else 2)  # what an iteration reads of the one before
    if loops in anchors:
        reading.fuse(anchors[loops], Iter(loops[-1]))
    else:
        anchors[loops] = reading
    return within


def is_replaced(run: KernelRun, value: ProgramValue) -> bool:
    """Whether an iteration of a carried value may take the place of the one before it, element by element.

    Nothing else reads what an earlier iteration has left.
    """
    loop, own = loop_names(run, value)[-1], list(value.domain)
    at = [each.name for each in own].index(loop)
    for reader in run.values:
        for access in accesses(reader.expr) if value.name in sources_of(reader) else ():
            if access.source != value.name:
                continue
            inside = loop in {each.name for each in (*reader.domain, *reader.over)}
            if reader is value:
                same = [index.same_as(each) for index, each in zip(access.indices, own, strict=True)]
                if not all(same[:at] + same[at + 1 :]):
                    return False
            elif inside and not access.indices[at].same_as(own[at]):
                return False
    return True


def main_statement(whole: PlacedValues) -> Selection:
    """The statement that stores the elements of the array whose loops are cut."""
    return whole.main.update if isinstance(whole.main, Reduction) else whole.main


def _loops_first(run: KernelRun, value: ProgramValue) -> None:
    """Put the loops of the kernel around the axes, in the update of a reduction over iterations."""
    handle = run.function[value.name]
    if not isinstance(handle, Reduction) or not value.over:
        return
    loops = [each for each in value.over if each.name in run.programs.axes.loops]
    if not loops:
        return
    (update,) = run.function.program.statements_of(value.name)[1:2]
    names = run.function.program.loop_names(update)
    rest = [Iter(name) for name in names if name in {each.name for each in axes_of(run, value)}]
    if rest:
        handle.update.reorder(*(each for each in loops if each.name in names), *rest)


def check_untouched(run: KernelRun) -> None:
    """Refuse a run whose outputs have commands already."""
    for name in run.stored:
        if name not in run.function.program.algorithm.computations:
            raise CommandError(f"tm.recipes.blocks: {name} has been inlined")
