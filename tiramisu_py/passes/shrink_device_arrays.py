"""A function whose GPUs hold boxes of its arrays: smaller allocations, and indices relative to the box.

allocate by@gpu1[R, C]             -->   allocate by@gpu1[R - G, C]
copy by@gpu1[G .. R] to by[G .. R]       copy by@gpu1[0 .. R - G] to by[G .. R]
by[r, c] = ...                           by[r - G, c] = ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiramisu_py.algorithm.conversions import typed
from tiramisu_py.algorithm.expressions import Expr, Param
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import rewrite
from tiramisu_py.algorithm.traversal import walk as parts
from tiramisu_py.algorithm.types import int64
from tiramisu_py.ir import (
    Allocate,
    Copy,
    Deferred,
    KernelFunction,
    Launch,
    Load,
    LoopFunction,
    Node,
    Store,
)
from tiramisu_py.ir.arithmetic.build import number, subtracted
from tiramisu_py.ir.arithmetic.simplify import simplified
from tiramisu_py.ir.device_boxes import DeviceBox
from tiramisu_py.ir.rewriting import all_expressions, with_children, with_expressions
from tiramisu_py.passes.base import About, FunctionPass
from tiramisu_py.records import dataclass


@dataclass(frozen=True)
class ShrinkDeviceArrays(FunctionPass):
    """Let a GPU hold only the box of an array that it uses, in place of the whole array.

    ::

        allocate by@gpu1[R, C]                -->   allocate by@gpu1[R - G, C]
        copy by@gpu1[G .. R] to by[G .. R]          copy by@gpu1[0 .. R - G] to by[G .. R]
        by[r, c] = ..                               by[r - G, c] = ..
    """

    def apply(self, what: LoopFunction, about: About) -> LoopFunction:
        return in_boxes(what, about.boxes, about.params)


def in_boxes(function: LoopFunction, boxes: Mapping[str, DeviceBox], params: Sequence[str]) -> LoopFunction:
    """The function with these boxes in place of whole arrays; `params` are all parameters of its code, in order."""
    if not boxes:
        return function
    kernels = {kernel.name: _kernel(kernel, boxes, params) for kernel in function.gpus.kernels}
    before = {kernel.name: kernel for kernel in function.gpus.kernels}

    def host(node: Node) -> Node:
        match node:
            case Allocate() if node.buffer in boxes:
                node = replace(node, extents=_extents(boxes[node.buffer]))
            case Copy():
                into = _inside(boxes[node.target], node.into) if node.target in boxes else node.into
                first = _inside(boxes[node.source], node.first) if node.source in boxes else node.first
                node = replace(node, into=into, first=first)
            case Launch():
                given = dict(zip(before[node.kernel].params, node.values, strict=False))
                sizes = (given.get(name, Param(name, int64)) for name in kernels[node.kernel].params)
                node = replace(node, values=(*sizes, *node.values[len(given) :]))
        return with_children(node, host)

    return replace(function, body=host(function.body), gpus=replace(function.gpus, kernels=tuple(kernels.values())))


def _inside(box: DeviceBox, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices inside the box of the element with these indices."""
    pairs = zip(indices, box.sides, strict=True)
    return tuple(i if side is None else simplified(subtracted(i, side.origin)) for i, side in pairs)


def _extents(box: DeviceBox) -> tuple[Expr, ...]:
    return tuple(typed(extent, int64) for extent in box.extents)


def _kernel(kernel: KernelFunction, boxes: Mapping[str, DeviceBox], params: Sequence[str]) -> KernelFunction:
    held = {box.buffer.name: box for box in boxes.values() if box.device == kernel.device}
    mine = {array.name: held[array.name] for array in kernel.arrays if array.name in held}
    if not mine:
        return kernel
    arrays = tuple(replace(a, extents=_extents(mine[a.name])) if a.name in mine else a for a in kernel.arrays)
    body = _moved(kernel.body, mine)
    own = (name for name in kernel.params if name not in params)
    sizes = (part for array in arrays for extent in array.extents for part in parts(extent))
    used = {e.name for e in (*all_expressions(body), *sizes) if isinstance(e, Param)}
    lines = (_line(name, box) for name, box in mine.items())
    return replace(
        kernel,
        params=(*(name for name in params if name in used), *own),
        arrays=arrays,
        body=body,
        documentation=(*kernel.documentation, *(line for line in lines if line)),
    )


def _line(name: str, box: DeviceBox) -> str:
    """A comment on the origin of the box; empty if that is index 0."""
    if all(side is None or str(side.origin) == "0" for side in box.sides):
        return ""
    origins = (number(0) if side is None else side.origin for side in box.sides)
    return f"{name} is held from [{', '.join(map(str, origins))}] on"


@deep_nest
def _moved(node: Node, boxes: Mapping[str, DeviceBox]) -> Node:
    def load(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in boxes:
            return None
        return replace(e, indices=_inside(boxes[e.buffer], tuple(rewrite(index, load) for index in e.indices)))

    node = with_expressions(node, lambda e: rewrite(e, load))
    if isinstance(node, Deferred) and node.store.buffer in boxes:
        node = replace(node, store=replace(node.store, indices=_inside(boxes[node.store.buffer], node.store.indices)))
    if isinstance(node, Store) and node.buffer in boxes:
        node = replace(node, indices=_inside(boxes[node.buffer], node.indices))
    return with_children(node, lambda child: _moved(child, boxes))
