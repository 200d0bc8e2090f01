"""Rules that loop IR satisfies after every pass, statement by statement.

`verify` is for tests: it walks over a function once, keeps the names in scope, and yields a sentence for each statement
or expression that breaks one of these rules. Compilation does not call it.

- Each variable, buffer, block of memory, event and request array is defined before its use, and in scope there.
- A loop, definition or declaration hides no variable in scope; a loop has one private copy of a buffer.
- The types of operands agree; indices, bounds and extents are int64; conditions are bool.
- The lanes of operands agree; bounds, extents and conditions of guards have one lane.
- A load or store has an index for each dimension, and the type of its buffer.
- `Assign` targets a non-constant `Declare` of the same type and lanes.
- Statements for GPUs and ranks are not in kernels, thread statements not on the host; launches fit their kernels.
- All threads of a block reach its barriers.

`expression_rules` has the rules of expressions. Rules that hold only from some pass on are in `properties`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.types import DType, bool_, component_types, int64
from tiramisu_py.ir import (
    Allocate,
    AllReduce,
    ArrayArgument,
    ArrayCall,
    Assign,
    Await,
    Barrier,
    BeginArray,
    Block,
    Collective,
    Complete,
    Copy,
    Declare,
    Deferred,
    EndArray,
    Events,
    For,
    If,
    KernelFunction,
    LastBlock,
    Launch,
    Let,
    LoadMatrices,
    LoadTile,
    Locked,
    LoopFunction,
    Mask,
    MemoryBlock,
    Mma,
    MultiplyTiles,
    Node,
    Piece,
    Post,
    Prefetch,
    Record,
    Requests,
    Store,
    StoreTile,
    Tiles,
    TreeReduce,
)
from tiramisu_py.ir.expression_rules import (
    KnownArray,
    KnownNames,
    Value,
    element,
    expected,
    lanes_of,
    lanes_of_element,
    of_expressions,
)
from tiramisu_py.ir.rewriting import children, walk
from tiramisu_py.ir.tile_statements import TILES
from tiramisu_py.ir.uniform_control import is_uniform

#: The number of indices of a block of memory, among handles: it is none of events or requests.
OF_MEMORY = -1
#: Statements of the host that command GPUs or communicate with other ranks.
HOST_ONLY = (
    MemoryBlock,
    BeginArray,
    EndArray,
    ArrayCall,
    Launch,
    Copy,
    Events,
    Record,
    Await,
    Post,
    Requests,
    Complete,
    Collective,
    AllReduce,
    Tiles,
    LoadTile,
    StoreTile,
    MultiplyTiles,
)
#: Statements of the threads of a kernel.
KERNEL_ONLY = (Barrier, Deferred, TreeReduce, LastBlock, Locked, LoadMatrices, Mma)


def verify(function: LoopFunction) -> Iterator[str]:
    """The rules that a function, its versions, its kernels or what packs for it break, a sentence each."""
    values = {name: Value(int64) for name in function.params}
    arrays = {}
    for argument in function.arguments:
        if isinstance(argument, ArrayArgument):
            arrays[argument.name] = KnownArray(argument.dtype, len(argument.extents))
        else:
            values[argument.name] = Value(argument.dtype)
    if function.grid is not None:
        values |= {name: Value(int64) for name in function.grid.varying}
    kernels = {kernel.name: kernel for kernel in function.gpus.kernels}
    scope = KnownNames(values, arrays, kernels=kernels)
    for condition, _ in function.preconditions:
        yield from expected(condition, scope, bool_)
    for argument in function.arguments:
        if isinstance(argument, ArrayArgument):
            for extent in argument.extents:
                yield from expected(extent, scope, int64)
    yield from _body(function.name, function.body, scope)
    for kernel in function.gpus.kernels:
        yield from _kernel(kernel)
    for version in function.companions.versions:
        for condition in version.conditions:
            yield from expected(condition, scope, bool_)
        yield from verify(version.function)
    for pack in function.companions.packs:
        yield from verify(pack)


def _kernel(kernel: KernelFunction) -> Iterator[str]:
    values = {name: Value(int64) for name in kernel.params}
    values |= {scalar.name: Value(scalar.dtype) for scalar in kernel.scalars}
    arrays = {array.name: KnownArray(array.dtype, len(array.extents)) for array in kernel.arrays}
    scope = KnownNames(values, arrays, in_kernel=True)
    for array in kernel.arrays:
        for extent in (*array.extents, *array.passed_extents):
            yield from expected(extent, scope, int64)
    yield from _body(f"kernel {kernel.name}", kernel.body, scope)
    if not is_uniform(kernel.body, frozenset()):
        yield f"kernel {kernel.name} has a barrier under a condition that differs between threads of a block"


def _body(name: str, body: Node, scope: KnownNames) -> Iterator[str]:
    yield from (f"{name}: {said}" for said in _statement(body, scope)[0])


@deep
def _statement(node: Node, scope: KnownNames) -> tuple[list[str], KnownNames]:
    """The rules broken in a statement, and the names in scope for the statements after it in the same sequence."""
    found = [*_own(node, scope), *of_expressions(node, scope)]
    if isinstance(node, Block | Mask):
        for child in children(node):
            more, scope = _statement(child, scope)
            found += more
        return found, scope
    inside = _inside(node, scope)
    for child in children(node):
        found += _statement(child, inside)[0]
    if isinstance(node, Declare):
        value = Value(node.value.dtype, node.lanes, not node.constant)
        return found, scope.with_value(node.variable, value)
    if isinstance(node, BeginArray):
        return found, scope.with_array(node.buffer, KnownArray(node.dtype, len(node.extents), max(node.lanes, 1)))
    return found, scope


def _inside(node: Node, scope: KnownNames) -> KnownNames:
    """The names in scope inside a statement."""
    match node:
        case For():
            return scope.with_value(node.variable, Value(int64))
        case Let():
            return scope.with_value(node.variable, Value(node.value.dtype, lanes_of(node.value, scope)))
        case Allocate():
            return scope.with_array(node.buffer, KnownArray(node.dtype, len(node.extents), max(node.lanes, 1)))
        case Events():
            return scope.with_handles(node.name, len(node.extents))
        case MemoryBlock():
            return scope.with_handles(node.name, OF_MEMORY)
        case Requests():
            return scope.with_handles(node.name, 1)
    return scope


# -- statements


def _own(node: Node, scope: KnownNames) -> Iterator[str]:
    """The rules that a statement itself breaks, without its expressions and the statements inside."""
    if isinstance(node, HOST_ONLY if scope.in_kernel else KERNEL_ONLY):
        yield f"{type(node).__name__} is {'in a kernel' if scope.in_kernel else 'on the host'}"
        return
    match node:
        case For() | Let() if node.variable in scope.values:
            yield f"{node.variable} is defined inside another {node.variable}"
        case Declare() if node.variable in scope.values:
            yield f"{node.variable} is declared in the scope of another {node.variable}"
    match node:
        case For():
            yield from _loop(node, scope)
        case If():
            yield from expected(node.condition, scope, bool_)
        case Declare():
            yield from _fits(f"{node.variable} of {node.lanes} lanes", node.value, node.value.dtype, node.lanes, scope)
        case Assign():
            yield from _assigned(node, scope)
        case Store():
            yield from _stored(node.buffer, node.indices, node.value, scope)
        case TreeReduce():
            yield from _combined(node, scope)
        case LoadMatrices():
            yield from element(node.buffer, (node.first,), scope)
            yield from expected(node.first, scope, int64)
        case Mma():
            for indices in node.places:
                yield from element(node.buffer, indices, scope)
        case Deferred():
            yield from _stored(node.store.buffer, node.store.indices, node.store.value, scope)
        case LastBlock():
            yield from element(node.tickets, (node.index,), scope)
            yield from expected(node.count, scope, int64)
        case Locked():
            yield from element(node.locks, (node.index,), scope)
            yield from (said for e in (node.number, node.count) if e is not None for said in expected(e, scope, int64))
        case Prefetch():
            yield from element(node.buffer, node.indices, scope)
        case ArrayCall():
            yield from _called(node, scope)
        case LoadTile() | StoreTile():
            yield from _tile(node, scope)
        case Mask():
            yield from expected(node.count, scope, int64)
        case Allocate() | Events():
            yield from (said for extent in node.extents for said in expected(extent, scope, int64))
        case MemoryBlock():
            yield from (said for room in node.rooms for each in room.extents for said in expected(each, scope, int64))
        case BeginArray():
            yield from (said for extent in node.extents for said in expected(extent, scope, int64))
            yield from _turn(node.buffer, node.block, scope)
            if node.buffer in scope.arrays:
                yield f"{node.buffer} begins in the scope of another {node.buffer}"
        case EndArray():
            yield from _turn(node.buffer, node.block, scope)
            if node.buffer not in scope.arrays:
                yield f"{node.buffer} ends, which does not exist there"
        case _:
            yield from _of_operations(node, scope)


def _of_operations(node: Node, scope: KnownNames) -> Iterator[str]:
    """The rules that break what the host tells GPUs and other ranks, and waits for."""
    match node:
        case Requests():
            yield from expected(node.count, scope, int64)
        case Launch():
            yield from _launched(node, scope)
        case Copy():
            yield from _copied(node, scope)
        case Record() | Await():
            yield from _handle(node.event, len(node.indices), scope)
        case Complete():
            yield from _handle(node.requests, 1, scope)
        case Post():
            yield from _message(node.array, node.dtype, node.elements, scope)
            if node.request is not None:
                yield from _handle(node.request.requests, 1, scope)
        case Collective():
            yield from _message(node.source, node.dtype, node.sends, scope)
            yield from _message(node.target, node.dtype, node.receives, scope)
        case AllReduce():
            for array, dtype in zip(node.arrays, component_types(node.dtype), strict=False):
                yield from _message(array, dtype, Block(()), scope)
            if len(node.arrays) != len(component_types(node.dtype)):
                yield f"{node.statement} combines {node.dtype} in {len(node.arrays)} arrays"


def _tile(node: LoadTile | StoreTile, scope: KnownNames) -> Iterator[str]:
    """The first elements of two rows exist, and a thread has so many tiles of that size."""
    for indices in (node.first, node.second):
        yield from element(node.buffer, indices, scope)
    if not 0 <= node.tile < TILES or node.rows > 16 or node.columns * node.dtype.bytes > 64:
        yield f"{node.statement} uses tile {node.tile} for {node.rows} x {node.columns} elements of {node.dtype}"


def _turn(buffer: str, block: str, scope: KnownNames) -> Iterator[str]:
    if scope.handles.get(block) != OF_MEMORY:
        yield f"{buffer} is in the memory {block}, which does not exist there"


def _loop(node: For, scope: KnownNames) -> Iterator[str]:
    yield from expected(node.lower, scope, int64)
    yield from expected(node.upper, scope, int64)
    if node.step < 1:
        yield f"loop {node.variable} has step {node.step}"
    for private in node.reductions:
        for buffer in private.buffers:
            if buffer not in scope.arrays:
                yield f"loop {node.variable} has private copies of {buffer}, which does not exist there"
        if private.dtype is not None and len(private.buffers) != len(private.dtype.fields):
            yield f"loop {node.variable} has private copies of {len(private.buffers)} buffers for {private.dtype}"
    copied = [buffer for private in node.reductions for buffer in private.buffers]
    if len({*copied}) < len(copied):
        yield f"loop {node.variable} has two private copies of a buffer"


def _assigned(node: Assign, scope: KnownNames) -> Iterator[str]:
    variable = scope.values.get(node.variable)
    if variable is None or not variable.assignable:
        why = "constant" if variable else "not declared"
        yield f"{node.statement} assigns to {node.variable}, which is {why} there"
        return
    yield from _fits(node.variable, node.value, variable.dtype, variable.lanes, scope)


def _stored(buffer: str, indices: tuple[Expr, ...], value: Expr, scope: KnownNames) -> Iterator[str]:
    wrong = list(element(buffer, indices, scope))
    yield from wrong
    if not wrong:
        lanes = lanes_of_element(buffer, indices, scope)
        yield from _fits(buffer, value, scope.arrays[buffer].dtype, lanes, scope)


def _combined(node: TreeReduce, scope: KnownNames) -> Iterator[str]:
    types = component_types(node.dtype)
    if not len(types) == len(node.buffers) == len(node.values):
        yield f"{node.statement} combines {node.dtype} in {len(node.buffers)} arrays, from {len(node.values)} values"
        return
    for buffer, value, dtype in zip(node.buffers, node.values, types, strict=True):
        yield from _stored(buffer, node.indices, value, scope)
        if value.dtype != dtype:
            yield f"{node.statement} combines {node.dtype}, but {buffer} is {value.dtype}"


def _fits(target: str, value: Expr, dtype: DType, lanes: int, scope: KnownNames) -> Iterator[str]:
    """Check that a value has its target's type and lanes; a scalar is broadcast to all lanes."""
    if value.dtype != dtype:
        yield f"{target} is {dtype}, but its value is {value.dtype} ({value})"
    own = lanes_of(value, scope)
    if own not in (1, lanes):
        yield f"{target} has {lanes} lanes, but its value has {own} ({value})"


def _called(node: ArrayCall, scope: KnownNames) -> Iterator[str]:
    of = [parameter for _, parameter in node.stage.array_parameters]
    if not len(of) == len(node.arrays) == len(node.sections):
        yield f"a call passes {len(node.arrays)} arrays to {node.stage.name}, which takes {len(of)}"
        return
    for name, section, parameter in zip(node.arrays, node.sections, of, strict=True):
        yield from _box(name, parameter.dtype, len(section.first), scope)
        yield from (said for each in (*section.first, *section.extents) for said in expected(each, scope, int64))
        if not len(section.extents) == len(section.steps) == parameter.rank:
            yield f"a call passes a part of {name} of {len(section.extents)} dimensions, not of {parameter.rank}"


def _launched(node: Launch, scope: KnownNames) -> Iterator[str]:
    kernel = scope.kernels.get(node.kernel)
    if kernel is None:
        yield f"a launch starts {node.kernel}, which is not a kernel"
        return
    yield from (said for number in node.grid for said in expected(number, scope, int64))
    wanted = [*(int64 for _ in kernel.params), *(scalar.dtype for scalar in kernel.scalars)]
    if [value.dtype for value in node.values] != wanted:
        yield f"a launch passes {len(node.values)} values to {node.kernel}, which takes {', '.join(map(str, wanted))}"
    if len(node.arrays) != len(kernel.arrays):
        yield f"a launch passes {len(node.arrays)} arrays to {node.kernel}, which takes {len(kernel.arrays)}"
        return
    for name, array in zip(node.arrays, kernel.arrays, strict=True):
        given = scope.arrays.get(name)
        if given is None:
            yield f"a launch passes {name}, which does not exist there"
        elif (given.dtype, given.rank) != (array.dtype, len(array.passed_extents)):
            yield f"a launch passes {name} for {array.name} of {node.kernel}, which has another type or rank"


def _copied(node: Copy, scope: KnownNames) -> Iterator[str]:
    for name, first in ((node.source, node.first), (node.target, node.into)):
        yield from _box(name, node.dtype, len(first), scope)
        if len(first) != len(node.extents):
            yield f"a copy of {len(node.extents)} extents begins at {len(first)} indices of {name}"


def _message(array: str, dtype: DType, elements: Node, scope: KnownNames) -> Iterator[str]:
    yield from _box(array, dtype, None, scope)
    for piece in walk(elements):
        if isinstance(piece, Piece):
            yield from _box(array, dtype, len(piece.first), scope)
            if any(len(side.steps) != len(piece.first) for side in piece.sides):
                yield f"the steps of a box of {array} are not as many as the indices of {array}"


def _box(name: str, dtype: DType, rank: int | None, scope: KnownNames) -> Iterator[str]:
    array = scope.arrays.get(name)
    if array is None:
        yield f"a box of {name} is moved, which does not exist there"
    elif array.dtype != dtype or rank not in (None, array.rank):
        yield f"a box of {name} is {dtype} with {rank} indices, but {name} is {array.dtype} with {array.rank}"


def _handle(name: str, rank: int, scope: KnownNames) -> Iterator[str]:
    known = scope.handles.get(name)
    if known is None:
        yield f"{name} is used as an event or request, which does not exist there"
    elif known != rank:
        yield f"{name} has {known} indices, but is used with {rank}"
