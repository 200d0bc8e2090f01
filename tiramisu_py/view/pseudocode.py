"""Loop IR as pseudocode: the scheduled program in a form for people."""

from __future__ import annotations

from dataclasses import fields

from tiramisu_py.algorithm.expressions import Const, Expr
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.algorithm.visitor import Visitor
from tiramisu_py.ir import (
    Allocate,
    AllReduce,
    ArrayCall,
    Assign,
    Await,
    Barrier,
    BeginArray,
    Block,
    Collective,
    Comment,
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
    Traced,
    TreeReduce,
)
from tiramisu_py.ir.arithmetic.build import added
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.program.loops import AXES, TENSOR_AXES, Parallel, TensorLoop, Unroll, Vector
from tiramisu_py.program.statement import FILES, device_words, sequence_words
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass
from tiramisu_py.styles import as_html

_PAD = "    "
#: How kinds of memory are called.
PLACES = {
    Memory.HOST: "memory",
    Memory.PINNED: "pinned memory",
    Memory.HOST_MAPPED: "memory of the host that GPUs address",
    Memory.GPU: "memory of GPU",
    Memory.SHARED: "shared memory",
    Memory.REGISTER: "registers",
    Memory.FILE: "a file",
}


@dataclass(frozen=True, eq=False, repr=False)
class ReadableLoops(LoopFunction):
    """A function in loop IR that prints as pseudocode."""

    def __str__(self) -> str:
        return pseudocode(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(str(self))


def readable(function: LoopFunction) -> ReadableLoops:
    """The function, to be printed."""
    return ReadableLoops(**{each.name: getattr(function, each.name) for each in fields(function)})


def pseudocode(function: LoopFunction) -> str:
    """The function's loops as indented text, one line a loop or statement; then its kernels, one after another."""
    arguments = ", ".join([*function.params, *(a.name for a in function.arguments)])
    lines = [f"{function.name}({arguments}){_rank(function)}:", *Pseudocode()(function.body, 1)]
    for kernel in function.gpus.kernels:
        lines += ["", *_kernel(kernel)]
    for version in function.companions.versions:
        where = " and ".join(
            [*(f"{param} is {value}" for param, value in version.sizes), *map(str, version.conditions)]
        )
        lines += ["", f"where {where}:", *Pseudocode()(version.function.body, 1)]
    for pack in function.companions.packs:
        lines += ["", pseudocode(pack).rstrip()]
    return "\n".join(lines) + "\n"


def _rank(function: LoopFunction) -> str:
    """The rank that runs it, in words: ``, on rank rank0 of 4``, or ``, on rank (rank0, rank1) of 2 x 3``."""
    if function.grid is None:
        return ""
    coordinates, extents = function.grid.coordinates, [str(extent) for extent in function.grid.extents]
    if len(coordinates) == 1:
        return f", on rank {coordinates[0]} of {extents[0]}"
    return f", on rank ({', '.join(coordinates)}) of {' x '.join(extents)}"


def _kernel(kernel: KernelFunction) -> list[str]:
    arguments = [*kernel.params, *(s.name for s in kernel.scalars), *(a.name for a in kernel.arrays)]
    threads = " x ".join(str(number) for number in _without_ones(kernel.threads))
    blocks = f", at least {kernel.minimum_blocks} blocks at a time" if kernel.minimum_blocks else ""
    head = f"kernel {kernel.name}({', '.join(arguments)}), on blocks of {threads} threads{blocks}:"
    return [head, *Pseudocode()(kernel.body, 1)]


def _without_ones(shape: tuple[int, int, int]) -> tuple[int, ...]:
    """A shape (x, y, z) without its last axes of one."""
    used = max((axis + 1 for axis, number in enumerate(shape) if number != 1), default=1)
    return shape[:used]


class Pseudocode(Visitor[list[str]]):
    """The lines of a statement, indented by a depth."""

    @deep
    def __call__(self, node: Node, depth: int) -> list[str]:
        """The lines of a statement and of those inside."""
        return self.method_for(node)(node, depth)

    def visit_block(self, node: Block, depth: int) -> list[str]:
        return [line for child in node.body for line in self(child, depth)]

    def visit_traced(self, node: Traced, depth: int) -> list[str]:
        return self(node.body, depth)

    def visit_comment(self, node: Comment, depth: int) -> list[str]:
        return [f"{_PAD * depth}# {node.text}"]

    def visit_for(self, node: For, depth: int) -> list[str]:
        step = f" step {node.step}" if node.step != 1 else ""
        head = f"for {node.variable} in {node.lower} .. {node.upper}{step}{_tag(node)}{_joined(node)}:"
        return [_PAD * depth + head, *self(node.body, depth + 1)]

    def visit_if(self, node: If, depth: int) -> list[str]:
        lines = [f"{_PAD * depth}if {node.condition}:", *self(node.then, depth + 1)]
        return lines if node.otherwise is None else [*lines, f"{_PAD * depth}else:", *self(node.otherwise, depth + 1)]

    def visit_let(self, node: Let, depth: int) -> list[str]:
        return [f"{_PAD * depth}{node.variable} = {node.value}", *self(node.body, depth)]

    def visit_mask(self, node: Mask, depth: int) -> list[str]:
        return [f"{_PAD * depth}of vectors, the first {node.count} lanes:", *self(node.body, depth + 1)]

    def visit_declare(self, node: Declare, depth: int) -> list[str]:
        return [f"{_PAD * depth}{node.variable} = {node.value}"]

    def visit_assign(self, node: Assign, depth: int) -> list[str]:
        return [f"{_PAD * depth}{node.variable} = {node.value}"]

    def visit_store(self, node: Store, depth: int) -> list[str]:
        how = "  (atomic)" if node.atomic else "  (non-temporal)" if node.nontemporal else ""
        return [f"{_PAD * depth}{node.buffer}{_index(node.indices)} = {node.value}{how}"]

    def visit_arraycall(self, node: ArrayCall, depth: int) -> list[str]:
        pairs = zip(node.arrays, node.sections, strict=True)
        parts = [f"{' x '.join(map(str, part.extents))} of {name} from {_index(part.first)}" for name, part in pairs]
        return [f"{_PAD * depth}{node.stage.name}({', '.join([*map(str, node.scalars), *parts])})"]

    def visit_prefetch(self, node: Prefetch, depth: int) -> list[str]:
        return [f"{_PAD * depth}prefetch {node.buffer}{_index(node.indices)}"]

    def visit_allocate(self, node: Allocate, depth: int) -> list[str]:
        head = f"{_PAD * depth}allocate {node.buffer}{_index(node.extents)} in {_place(node)}"
        if node.memory is Memory.GPU:
            return [head, *self(node.body, depth)]
        return [f"{head}:", *self(node.body, depth + 1)]

    def visit_memoryblock(self, node: MemoryBlock, depth: int) -> list[str]:
        place = PLACES[Memory.HOST] if node.device is None else f"{PLACES[Memory.GPU]} {node.device}"
        return [f"{_PAD * depth}{node.name} in {place}, in turns for {', '.join(node.arrays)}", *self(node.body, depth)]

    def visit_beginarray(self, node: BeginArray, depth: int) -> list[str]:
        return [f"{_PAD * depth}begin {node.buffer}{_index(node.extents)} in {node.block}"]

    def visit_endarray(self, node: EndArray, depth: int) -> list[str]:
        return [f"{_PAD * depth}end {node.buffer}{f', and free {node.block}' if node.frees else ''}"]

    # -- what the host tells a GPU, and what only kernels do

    def visit_launch(self, node: Launch, depth: int) -> list[str]:
        grid = [str(number) for number in node.grid]
        while len(grid) > 1 and grid[-1] == "1":
            grid.pop()
        return [f"{_PAD * depth}start {node.kernel} on {' x '.join(grid)} blocks{_queue(node.device, node.stream)}"]

    def visit_copy(self, node: Copy, depth: int) -> list[str]:
        source = f"{node.source}{_box(node.first, node.extents)}"
        target = f"{node.target}{_box(node.into, node.extents)}"
        how = "start to copy" if node.asynchronous else "copy"
        return [f"{_PAD * depth}{how} {source} to {target}{_queue(node.device, node.stream)}"]

    def visit_events(self, node: Events, depth: int) -> list[str]:
        head = f"{_PAD * depth}events {node.name}{_index(node.extents)} of {device_words(node.device)}"
        return [head, *self(node.body, depth)]

    def visit_record(self, node: Record, depth: int) -> list[str]:
        return [f"{_PAD * depth}{node.event}{_index(node.indices)} happens here{_queue(node.device, node.stream)}"]

    def visit_await(self, node: Await, depth: int) -> list[str]:
        where = "" if node.stream is None else _queue(node.device, node.stream)
        return [f"{_PAD * depth}wait for {node.event}{_index(node.indices)}{where}"]

    def visit_barrier(self, node: Barrier, depth: int) -> list[str]:
        return [f"{_PAD * depth}barrier"]

    def visit_deferred(self, node: Deferred, depth: int) -> list[str]:
        until = "the next barrier" if node.barriers == 1 else f"{node.barriers} barriers have passed"
        return [f"{line}  (until {until})" for line in self(node.store, depth)]

    def visit_treereduce(self, node: TreeReduce, depth: int) -> list[str]:
        element = ", ".join(f"{buffer}{_index(node.indices)}" for buffer in node.buffers)
        value = ", ".join(map(str, node.values))
        where = "threads" if len(node.axes) > 1 else "".join(f"threadIdx.{AXES[axis]}" for axis in node.axes)
        return [f"{_PAD * depth}{element} = {node.operator.name} of {value} over {where or 'one thread'}"]

    def visit_tiles(self, node: Tiles, depth: int) -> list[str]:
        return [f"{_PAD * depth}with tiles:", *self(node.body, depth + 1)]

    def visit_loadtile(self, node: LoadTile, depth: int) -> list[str]:
        return [f"{_PAD * depth}tile {node.tile} = {self._tile(node)}"]

    def visit_storetile(self, node: StoreTile, depth: int) -> list[str]:
        return [f"{_PAD * depth}{self._tile(node)} = tile {node.tile}"]

    def _tile(self, node: LoadTile | StoreTile) -> str:
        """The elements of a tile, by those that begin the first two rows."""
        return f"{node.rows} x {node.columns} from {node.buffer}{_index(node.first)}, {_index(node.second)}"

    def visit_multiplytiles(self, node: MultiplyTiles, depth: int) -> list[str]:
        return [f"{_PAD * depth}tile {node.sums} += tile {node.left} * tile {node.right}"]

    def visit_mma(self, node: Mma, depth: int) -> list[str]:
        sums, left, right = (", ".join(map(str, each)) for each in ([*map(_index, node.places)], node.left, node.right))
        return [f"{_PAD * depth}{node.buffer} at {sums} += {node.instruction} of {left} and {right}"]

    def visit_loadmatrices(self, node: LoadMatrices, depth: int) -> list[str]:
        to, turned = f"{node.buffer}[{node.first} : {node.count} more]", ", transposed" if node.transposed else ""
        return [f"{_PAD * depth}{to} = matrices with rows {node.row}{turned}"]

    def visit_lastblock(self, node: LastBlock, depth: int) -> list[str]:
        head = f"{_PAD * depth}the last of {node.count} blocks, by {node.tickets}[{node.index}]:"
        return [head, *self(node.body, depth + 1)]

    def visit_locked(self, node: Locked, depth: int) -> list[str]:
        turn = "with the lock" if node.number is None else f"in turn, as number {node.number}, by"
        head = f"{_PAD * depth}{turn} {node.locks}[{node.index}]:"
        return [head, *self(node.body, depth + 1)]

    # -- what a rank tells others

    def visit_piece(self, node: Piece, depth: int) -> list[str]:
        sides = "".join(f", {side.extent} along {list(side.steps)}" for side in node.sides)
        peer = "" if node.peer is None else f"rank {node.peer}: "
        return [f"{_PAD * depth}{peer}elements from {_index(node.first)}{sides}"]

    def visit_collective(self, node: Collective, depth: int) -> list[str]:
        pad, does = _PAD * depth, "exchange" if node.root is None else f"broadcast from rank {node.root}"
        sends = [f"{pad}    send {node.source}:", *self(node.sends, depth + 2)]
        receives = [f"{pad}    receive {node.target}:", *self(node.receives, depth + 2)]
        return [f"{pad}all ranks {does}:", *sends, *receives]

    def visit_post(self, node: Post, depth: int) -> list[str]:
        does, of = ("send", "to") if node.sends else ("receive", "from")
        request = "" if node.request is None else f", request {node.request.requests}[{node.request.index}]"
        head = f"{_PAD * depth}{does} {node.array} {of} rank {node.peer}, tag {node.tag}{request}:"
        return [head, *self(node.elements, depth + 1)]

    def visit_allreduce(self, node: AllReduce, depth: int) -> list[str]:
        axes = " and ".join(map(str, node.axes))
        which = f"axis {axes}" if len(node.axes) == 1 else f"axes {axes}"
        tree = ", in a tree" if node.tree else ""
        return [f"{_PAD * depth}all ranks along {which}: {node.operator.name} of {', '.join(node.arrays)}{tree}"]

    def visit_requests(self, node: Requests, depth: int) -> list[str]:
        return [f"{_PAD * depth}requests {node.name}[{node.count}]", *self(node.body, depth)]

    def visit_complete(self, node: Complete, depth: int) -> list[str]:
        return [f"{_PAD * depth}wait for {node.count} of {node.requests} from {node.first}"]


def _queue(device: int, stream: int) -> str:
    return f"  ({sequence_words(FILES, stream)})" if device == FILES else f"  (GPU {device}, stream {stream})"


def _box(first: tuple[Expr, ...], extents: tuple[Expr, ...]) -> str:
    """A box of elements: along each dimension an index, or a range of them."""
    return f"[{', '.join(_side(index, extent) for index, extent in zip(first, extents, strict=True))}]"


def _side(first: Expr, extent: Expr) -> str:
    if isinstance(extent, Const) and extent.value == 1:
        return str(first)
    if isinstance(first, Const) and first.value == 0:
        return f"0 .. {extent}"
    plain, short = f"{first} + {extent}", str(simplified(added(first, extent)))
    return f"{first} .. {short if len(short) < len(plain) else plain}"


def _place(node: Allocate) -> str:
    if node.register:
        return PLACES[Memory.REGISTER]
    if node.pages is not None:
        return f"{PLACES[node.memory]}, pages {node.pages}"
    if node.swizzle is not None:
        return f"{PLACES[node.memory]}, swizzle {node.swizzle}"
    return f"{PLACES[node.memory]} {node.device}" if node.memory is Memory.GPU else PLACES[node.memory]


def _index(indices: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(str, indices))}]"


def _joined(node: For) -> str:
    return f"  of the bundle {node.joined}" if node.joined else ""


def _tag(node: For) -> str:
    match node.tag:
        case Parallel():
            by = "" if node.tag.balance is None else f", balance {node.tag.balance}"
            most = "" if node.tag.threads is None else f", at most {node.tag.threads} threads"
            return (
                f"  parallel({node.tag.schedule}{by}{most})" if node.tag.collapse else "  parallel with the loop around"
            )
        case Vector():
            rest = _rest(node.tag.remainder, "scalar") + _rest(node.tag.partial, "loop", "partial")
            return f"  vector({node.tag.width}{rest})"
        case Unroll():
            rest = _rest(node.tag.remainder, "loop")
            said = f"{node.tag.factor or ''}{rest}".removeprefix(", ")
            return f"  unroll({said})" if said else "  unroll"
        case TensorLoop(instruction=instruction, axis=axis):
            return f"  {TENSOR_AXES[axis]} of {instruction}"
    return ""


def _rest(remainder: str, usual: str, name: str = "remainder") -> str:
    """The treatment of an incomplete vector or tile in words, if it is not the usual one."""
    return "" if remainder == usual else f", {name} {remainder}"
