"""Loop IR as pseudocode: what the scheduled program does, to be read by people."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Const, Expr
from tiramisu_py.algorithm.stacks import deep
from tiramisu_py.ir import (
    Allocate,
    AllReduce,
    Assign,
    Await,
    Barrier,
    Block,
    Collective,
    Comment,
    Complete,
    Copy,
    Declare,
    Deferred,
    Events,
    For,
    If,
    KernelFunction,
    Launch,
    Let,
    LoopFunction,
    Mask,
    Node,
    Piece,
    Post,
    Prefetch,
    Record,
    Requests,
    Store,
    Traced,
    TreeReduce,
)
from tiramisu_py.ir.arithmetic.build import added
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.program.loops import Parallel, Unroll, Vector
from tiramisu_py.program.storage import Memory

#: How kinds of memory are called.
PLACES = {
    Memory.HOST: "memory",
    Memory.PINNED: "pinned memory",
    Memory.HOST_MAPPED: "memory of the host that GPUs address",
    Memory.GPU: "memory of GPU",
    Memory.SHARED: "shared memory",
    Memory.REGISTER: "registers",
}


def pseudocode(function: LoopFunction) -> str:
    """The function's loops as indented text, one line a loop or statement; then its kernels, one after another."""
    arguments = ", ".join([*function.params, *(a.name for a in function.arguments)])
    lines = [f"{function.name}({arguments}){_rank(function)}:", *_lines(function.body, 1)]
    for kernel in function.kernels:
        lines += ["", *_kernel(kernel)]
    for version in function.versions:
        where = " and ".join(f"{param} is {value}" for param, value in version.sizes)
        lines += ["", f"where {where}:", *_lines(version.function.body, 1)]
    return "\n".join(lines) + "\n"


def _rank(function: LoopFunction) -> str:
    """On which rank it runs: ``, on rank rank0 of 4``, or ``, on rank (rank0, rank1) of 2 x 3``."""
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
    return [head, *_lines(kernel.body, 1)]


def _message(node: Piece | Post | Requests | Complete | Collective | AllReduce, depth: int) -> list[str]:
    pad = "    " * depth
    match node:
        case Piece():
            sides = "".join(f", {side.extent} along {list(side.steps)}" for side in node.sides)
            peer = "" if node.peer is None else f"rank {node.peer}: "
            return [f"{pad}{peer}elements from [{', '.join(map(str, node.first))}]{sides}"]
        case Collective():
            does = "exchange" if node.root is None else f"broadcast from rank {node.root}"
            sends = [f"{pad}    send {node.source}:", *_lines(node.sends, depth + 2)]
            receives = [f"{pad}    receive {node.target}:", *_lines(node.receives, depth + 2)]
            return [f"{pad}all ranks {does}:", *sends, *receives]
        case Post():
            does, of = ("send", "to") if node.sends else ("receive", "from")
            request = "" if node.request is None else f", request {node.request.requests}[{node.request.index}]"
            head = f"{pad}{does} {node.array} {of} rank {node.peer}, tag {node.tag}{request}:"
            return [head, *_lines(node.elements, depth + 1)]
        case AllReduce():
            axes = " and ".join(map(str, node.axes))
            which = f"axis {axes}" if len(node.axes) == 1 else f"axes {axes}"
            return [f"{pad}all ranks along {which}: {node.operator.name} of {node.array}"]
        case Requests():
            return [f"{pad}requests {node.name}[{node.count}]", *_lines(node.body, depth)]
        case Complete():
            return [f"{pad}wait for {node.count} of {node.requests} from {node.first}"]


def _without_ones(shape: tuple[int, int, int]) -> tuple[int, ...]:
    """A shape (x, y, z) without its last axes of one."""
    used = max((axis + 1 for axis, number in enumerate(shape) if number != 1), default=1)
    return shape[:used]


@deep
def _lines(node: Node, depth: int) -> list[str]:
    pad = "    " * depth
    match node:
        case Piece() | Post() | Requests() | Complete() | Collective() | AllReduce():
            return _message(node, depth)
        case Block():
            return [line for child in node.body for line in _lines(child, depth)]
        case Traced():
            return _lines(node.body, depth)
        case Comment():
            return [f"{pad}# {node.text}"]
        case For():
            step = f" step {node.step}" if node.step != 1 else ""
            head = f"for {node.variable} in {node.lower} .. {node.upper}{step}{_tag(node)}:"
            return [pad + head, *_lines(node.body, depth + 1)]
        case If():
            lines = [f"{pad}if {node.condition}:", *_lines(node.then, depth + 1)]
            return lines if node.otherwise is None else [*lines, f"{pad}else:", *_lines(node.otherwise, depth + 1)]
        case Let():
            return [f"{pad}{node.variable} = {node.value}", *_lines(node.body, depth)]
        case Mask():
            return [f"{pad}of vectors, the first {node.count} lanes:", *_lines(node.body, depth + 1)]
        case Declare() | Assign():
            return [f"{pad}{node.variable} = {node.value}"]
        case Store():
            how = "  (atomic)" if node.atomic else "  (non-temporal)" if node.nontemporal else ""
            return [f"{pad}{node.buffer}{_index(node.indices)} = {node.value}{how}"]
        case Prefetch():
            return [f"{pad}prefetch {node.buffer}{_index(node.indices)}"]
        case Allocate():
            extents = ", ".join(map(str, node.extents))
            head = f"{pad}allocate {node.buffer}[{extents}] in {_place(node)}"
            if node.memory is Memory.GPU:
                return [head, *_lines(node.body, depth)]
            return [f"{head}:", *_lines(node.body, depth + 1)]
        case Launch() | Copy() | Record() | Await():
            return [pad + _told(node)]
        case Events():
            extents = ", ".join(map(str, node.extents))
            return [f"{pad}events {node.name}[{extents}] of GPU {node.device}", *_lines(node.body, depth)]
        case Barrier():
            return [f"{pad}barrier"]
        case Deferred():
            return [f"{line}  (until the next barrier)" for line in _lines(node.store, depth)]
        case TreeReduce():
            element = f"{node.buffer}{_index(node.indices)}"
            return [f"{pad}{element} = {node.operator.name} of {element} and, over the block, {node.value}"]


def _told(node: Launch | Copy | Record | Await) -> str:
    """What the host tells a GPU."""
    match node:
        case Launch():
            grid = [str(number) for number in node.grid]
            while len(grid) > 1 and grid[-1] == "1":
                grid.pop()
            return f"start {node.kernel} on {' x '.join(grid)} blocks{_queue(node.device, node.stream)}"
        case Copy():
            source = f"{node.source}{_box(node.first, node.extents)}"
            target = f"{node.target}{_box(node.into, node.extents)}"
            how = "start to copy" if node.asynchronous else "copy"
            return f"{how} {source} to {target}{_queue(node.device, node.stream)}"
        case Record():
            return f"{node.event}{_index(node.indices)} happens here{_queue(node.device, node.stream)}"
        case Await():
            where = "" if node.stream is None else _queue(node.device, node.stream)
            return f"wait for {node.event}{_index(node.indices)}{where}"


def _queue(device: int, stream: int) -> str:
    return f"  (GPU {device}, stream {stream})"


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
    return f"{PLACES[node.memory]} {node.device}" if node.memory is Memory.GPU else PLACES[node.memory]


def _index(indices: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(str, indices))}]"


def _tag(node: For) -> str:
    match node.tag:
        case Parallel():
            return f"  parallel({node.tag.schedule})" if node.tag.collapse else "  parallel with the loop around"
        case Vector():
            return f"  vector({node.tag.width}{_rest(node.tag.remainder, 'scalar')})"
        case Unroll():
            rest = _rest(node.tag.remainder, "loop")
            said = f"{node.tag.factor or ''}{rest}".removeprefix(", ")
            return f"  unroll({said})" if said else "  unroll"
    return ""


def _rest(remainder: str, usual: str) -> str:
    """How what does not fill a vector or a tile runs, where that is not as usual."""
    return "" if remainder == usual else f", remainder {remainder}"
