"""Loop IR as pseudocode: what the scheduled program does, to be read by people."""

from __future__ import annotations

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.lower.ir import Allocate, Assign, Block, Comment, Declare, For, If, Let, LoopFunction, Node, Store
from tiramisu_py.program.loops import Parallel, Unroll, Vector


def pseudocode(function: LoopFunction) -> str:
    """The function's loops as indented text, one line a loop or statement."""
    arguments = ", ".join([*function.params, *(a.name for a in function.arguments)])
    return "\n".join([f"{function.name}({arguments}):", *_lines(function.body, 1)]) + "\n"


def _lines(node: Node, depth: int) -> list[str]:
    pad = "    " * depth
    match node:
        case Block():
            return [line for child in node.body for line in _lines(child, depth)]
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
        case Declare() | Assign():
            return [f"{pad}{node.variable} = {node.value}"]
        case Store():
            return [f"{pad}{node.buffer}{_index(node.indices)} = {node.value}"]
        case Allocate():
            where = "registers" if node.register else "memory"
            extents = ", ".join(map(str, node.extents))
            return [f"{pad}allocate {node.buffer}[{extents}] in {where}:", *_lines(node.body, depth + 1)]
    return [f"{pad}{node}"]


def _index(indices: tuple[Expr, ...]) -> str:
    return f"[{', '.join(map(str, indices))}]"


def _tag(node: For) -> str:
    match node.tag:
        case Parallel():
            return f"  parallel({node.tag.schedule})" if node.tag.collapse else "  parallel with the loop around"
        case Vector():
            return f"  vector({node.tag.width})"
        case Unroll():
            return f"  unroll({node.tag.factor})" if node.tag.factor else "  unroll"
    return ""
