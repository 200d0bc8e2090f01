"""Loop IR with GPU parts as a person would write it down."""

from __future__ import annotations

from tests.programs.by_hand import text as plain
from tiramisu_py.ir import (
    Allocate,
    Await,
    Barrier,
    Block,
    Copy,
    Deferred,
    Events,
    For,
    If,
    KernelFunction,
    Launch,
    Let,
    LoopFunction,
    Node,
    Record,
    Store,
    TreeReduce,
)


def _list(parts) -> str:
    return f"[{', '.join(map(str, parts))}]"


def _where(device: int | None) -> str:
    return "host" if device is None else f"gpu{device}"


def text(node: Node | None, indent: int = 0) -> str:
    """Loop IR, GPU parts included."""
    pad = "  " * indent
    match node:
        case Block():
            return "".join(text(child, indent) for child in node.body)
        case For() | If() | Let() | Allocate():
            return _outer(node, indent)
        case Store(atomic=True):
            return f"{pad}atomic {plain(node).strip()}\n"
        case Launch():
            values = ", ".join(map(str, (*node.values, *node.arrays)))
            return f"{pad}{node.kernel}<{', '.join(map(str, node.grid))}>({values}) on {node.device}:{node.stream}\n"
        case Copy():
            mode = "" if node.asynchronous else " and wait"
            return (
                f"{pad}copy {node.target}{_list(node.into)} = {node.source}{_list(node.first)} x {_list(node.extents)}"
                f" from {_where(node.source_device)} to {_where(node.target_device)}"
                f" on {node.device}:{node.stream}{mode}\n"
            )
        case Events():
            return f"{pad}events {node.name}{_list(node.extents)} of {node.device}\n{text(node.body, indent)}"
        case Record():
            return f"{pad}record {node.event}{_list(node.indices)} on {node.device}:{node.stream}\n"
        case Await():
            who = "host" if node.stream is None else f"{node.device}:{node.stream}"
            return f"{pad}{who} waits for {node.event}{_list(node.indices)}\n"
        case Barrier():
            return f"{pad}barrier {node.statement}\n"
        case Deferred():
            return f"{pad}deferred {plain(node.store).strip()}\n"
        case TreeReduce():
            places = ", ".join(f"{buffer}{_list(node.indices)}" for buffer in node.buffers)
            return f"{pad}combine {places} {node.operator.name} {', '.join(map(str, node.values))}\n"
    return plain(node, indent)


def _outer(node: For | If | Let | Allocate, indent: int) -> str:
    pad = "  " * indent
    match node:
        case For():
            tag = f"  [{node.tag.name}]" if node.tag else ""
            step = "" if node.step == 1 else f" by {node.step}"
            head = f"{pad}for {node.variable} = {node.lower} .. {node.upper}{step}{tag}\n"
            return head + text(node.body, indent + 1)
        case If():
            no = f"{pad}else\n{text(node.otherwise, indent + 1)}" if node.otherwise is not None else ""
            return f"{pad}if {node.condition}\n{text(node.then, indent + 1)}{no}"
        case Let():
            return f"{pad}{node.variable} = {node.value}\n{text(node.body, indent)}"
    kind = "register" if node.register else f"{node.memory.value}"
    at = f" of {node.device}" if node.device is not None else ""
    return f"{pad}{kind} {node.buffer}{_list(node.extents)}{at}\n{text(node.body, indent)}"


def kernel_text(kernel: KernelFunction) -> str:
    """A kernel with its head."""
    arrays = [("const " if array.is_constant else "") + array.name for array in kernel.arrays]
    scalars = [scalar.name for scalar in kernel.scalars]
    shape = " x ".join(map(str, kernel.threads))
    return f"kernel {kernel.name}({', '.join([*kernel.params, *scalars, *arrays])}) {shape}\n{text(kernel.body, 1)}"


def whole(function: LoopFunction) -> str:
    """The host's part, then the kernels."""
    return text(function.body) + "".join(map(kernel_text, function.gpus.kernels))
