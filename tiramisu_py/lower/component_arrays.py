"""Arrays of several values at once, as an array for each component: what the rest of the compiler sees.

Before: ``best[i] = argmin(best[i], (a[i, k], k))``, of elements with a value and an index. After: ``best_value[i]`` and
``best_index[i]``, both computed before either of them is stored. A place holds a whole value in the program and in its
proof, so that the components of a value are always those of one execution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from tiramisu_py.algorithm.expressions import Expr
from tiramisu_py.algorithm.stacks import deep_nest
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import DType, TupleType
from tiramisu_py.errors import CompilerDefect
from tiramisu_py.ir import (
    Allocate,
    AllReduce,
    ArrayCall,
    Copy,
    Deferred,
    For,
    KernelFunction,
    Launch,
    Let,
    Load,
    LoopFunction,
    Node,
    Prefetch,
    Private,
    Store,
    TreeReduce,
)
from tiramisu_py.ir import rewriting as nodes
from tiramisu_py.ir.arithmetic.components import Components
from tiramisu_py.ir.device_boxes import DeviceBox
from tiramisu_py.ir.expressions import Variable
from tiramisu_py.ir.rewriting import Names, block, names, with_children, with_expressions
from tiramisu_py.passes.base import About
from tiramisu_py.program.loops import Combine
from tiramisu_py.records import dataclass

#: The arrays of a buffer, with their types.
Parts = tuple[tuple[str, DType], ...]


def in_component_arrays(function: LoopFunction, about: About) -> tuple[LoopFunction, About]:
    """A function whose arrays all have elements of one value, and what passes may know of it.

    What only arrays of single values can be, the proof has refused: sent between ranks, or updated atomically.
    """
    types = _types(function)
    if not types:
        return function, about
    within = (name for kernel in function.gpus.kernels for name in names(kernel.body))
    taken = Names({*names(function.body), *function.params, *(a.name for a in function.arguments), *within})
    split = _Splitting(types, _parts(types, taken), taken)
    boxes = {name: each for known, box in about.boxes.items() for name, each in split.boxes(known, box)}
    return split.function(function), replace(about, boxes=boxes)


def _types(function: LoopFunction) -> dict[str, TupleType]:
    """The buffers of several values, without the devices on which they are."""
    bodies = [function.body, *(kernel.body for kernel in function.gpus.kernels)]
    arrays = [(a.name, a.dtype) for a in function.arguments]
    arrays += [(a.name, a.dtype) for kernel in function.gpus.kernels for a in kernel.arrays]
    arrays += [(n.buffer, n.dtype) for body in bodies for n in nodes.walk(body) if isinstance(n, Allocate)]
    return {name.partition("@")[0]: dtype for name, dtype in arrays if isinstance(dtype, TupleType)}


def _parts(types: Mapping[str, TupleType], taken: Names) -> dict[str, Parts]:
    return {
        buffer: tuple((taken.fresh(f"{buffer}_{name}"), own) for name, own in dtype.fields)
        for buffer, dtype in types.items()
    }


@dataclass(frozen=True, eq=False)
class _Splitting:
    """Puts the arrays of components in the place of their buffers."""

    types: Mapping[str, TupleType]
    parts: Mapping[str, Parts]
    taken: Names

    def of(self, buffer: str) -> Parts:
        """The arrays of a buffer, on the same device; none if it is an array of single values."""
        base, at, device = buffer.partition("@")
        return tuple((f"{name}{at}{device}", dtype) for name, dtype in self.parts.get(base, ()))

    def function(self, function: LoopFunction) -> LoopFunction:
        arguments = tuple(own for argument in function.arguments for own in self._array(argument))
        outputs = tuple(own for output in function.outputs for own in self._names(output))
        kernels = tuple(self._kernel(kernel) for kernel in function.gpus.kernels)
        body = self.node(function.body)
        return replace(
            function, arguments=arguments, outputs=outputs, gpus=replace(function.gpus, kernels=kernels), body=body
        )

    def _kernel(self, kernel: KernelFunction) -> KernelFunction:
        arrays = tuple(own for array in kernel.arrays for own in self._array(array))
        return replace(kernel, arrays=arrays, body=self.node(kernel.body))

    def _array(self, array: Any) -> list[Any]:
        """An argument or a parameter, or those of its components."""
        return [replace(array, name=name, dtype=dtype) for name, dtype in self.of(array.name)] or [array]

    def _names(self, buffer: str) -> tuple[str, ...]:
        return tuple(name for name, _ in self.of(buffer)) or (buffer,)

    def boxes(self, name: str, box: DeviceBox) -> list[tuple[str, DeviceBox]]:
        """The part of an array that a GPU holds, for each component."""
        buffer = box.buffer
        found = [
            (own, replace(box, buffer=replace(buffer, name=own.partition("@")[0], dtype=dtype)))
            for own, dtype in self.of(name)
        ]
        return found or [(name, box)]

    # -- statements

    @cached_property
    def components(self) -> Components:
        """Expressions of one value each, on arrays of components."""
        return Components(self._loaded)

    @deep_nest
    def node(self, node: Node) -> Node:
        """A statement, on arrays of components."""
        match node:
            case Allocate() if parts := self.of(node.buffer):
                inside: Node = self.node(node.body)
                for name, dtype in reversed(parts):
                    inside = replace(node, buffer=name, dtype=dtype, body=inside)
                return inside
            case Store() if parts := self.of(node.buffer):
                return self._store(node, parts)
            case Deferred(store=store, barriers=barriers) if self.of(store.buffer):
                each = self._store(store, self.of(store.buffer))
                return _over_stores(each, lambda one: Deferred(one, barriers))
            case Copy() if targets := self.of(node.target):
                pairs = zip(targets, self.of(node.source), strict=True)
                return block(
                    replace(self._plain(node), target=target, source=source, dtype=dtype)
                    for (target, dtype), (source, _) in pairs
                )
            case Launch():
                arrays = tuple(own for name in node.arrays for own in self._names(name))
                return with_expressions(replace(node, arrays=arrays), self.components.single)
            case ArrayCall():
                return self._call(node)
            case Prefetch() if parts := self.of(node.buffer):
                return block(replace(self._plain(node), buffer=name) for name, _ in parts)
            case TreeReduce() if any(map(self.of, node.buffers)):
                return self._combined(node)
            case AllReduce() if any(map(self.of, node.arrays)):
                return replace(node, arrays=tuple(own for name in node.arrays for own in self._names(name)))
            case For() if node.reductions:
                node = self._copied(node)
            case _:
                self._check_known(node)
        return with_children(self._plain(node), self.node)

    def _plain(self, node: Any) -> Any:
        return with_expressions(node, self.components.single)

    def _call(self, node: ArrayCall) -> Node:
        """A call that writes an array for each component: its parameters have their names."""
        arrays = list[str]()
        for (name, of), array in zip(node.stage.array_parameters, node.arrays, strict=True):
            parts = self.of(array) if of.is_stored else ()
            names_of = [own for own, _ in node.stage.stored]
            arrays.append(parts[names_of.index(name)][0] if parts else array)
        return with_expressions(replace(node, arrays=tuple(arrays)), self.components.single)

    def _combined(self, node: TreeReduce) -> Node:
        """Threads combine the components of a value together."""
        ((buffer,), (value,)) = node.buffers, node.values
        parts = self.of(buffer)
        values = tuple(self.components.component(value, k) for k in range(len(parts)))
        indices = tuple(map(self.components.single, node.indices))
        return replace(node, buffers=tuple(name for name, _ in parts), indices=indices, values=values)

    def _store(self, node: Store, parts: Parts) -> Node:
        """All components are computed before the first of them is stored, if they need what is stored there."""
        if node.atomic:
            raise CompilerDefect(_not_together(node.buffer, node.statement))
        indices = tuple(map(self.components.single, node.indices))
        values = [self.components.component(node.value, k) for k in range(len(parts))]
        own = [name for name, _ in parts]
        if not any(isinstance(e, Load) and e.buffer in own for value in values for e in walk(value)):
            return self._stores(node, parts, indices, values)
        named = [self.taken.fresh(f"{name.partition('@')[0]}_new") for name in own]
        found = [Variable(name, dtype) for name, (_, dtype) in zip(named, parts, strict=True)]
        stores = self._stores(node, parts, indices, found)
        for name, value in reversed(list(zip(named, values, strict=True))):
            stores = Let(name, value, stores)
        return stores

    def _stores(self, node: Store, parts: Parts, indices: tuple[Expr, ...], values: Sequence[Expr]) -> Node:
        return block(
            replace(node, buffer=name, indices=indices, value=value, update=None)
            for (name, _), value in zip(parts, values, strict=True)
        )

    def _copied(self, node: For) -> For:
        """A loop whose iterations have private copies, of all components together."""
        return replace(node, reductions=tuple(self._private(node, each) for each in node.reductions))

    def _private(self, node: For, private: Private) -> Private:
        parts = self.of(private.buffer)
        if not parts:
            return private
        if private.combine is not Combine.PRIVATE:
            raise CompilerDefect(_not_together(private.buffer, f"loop {node.variable}"))
        first, *others = (name for name, _ in parts)
        return replace(private, buffer=first, dtype=self.types[private.buffer.partition("@")[0]], beside=tuple(others))

    def _check_known(self, node: Node) -> None:
        """Other statements on such arrays are refused before: messages."""
        roles = getattr(node, "roles", None)
        if roles is None:
            return
        for field in (*roles.names, *roles.reads):
            held = getattr(node, field)
            for name in held if isinstance(held, tuple) else (held,):
                if isinstance(name, str) and self.of(name):
                    raise CompilerDefect(
                        f"{name} has several values, {_words(self.parts[name.partition('@')[0]])}, and a "
                        f"{type(node).__name__.lower()} is of arrays with one"
                    )

    # -- expressions

    def _loaded(self, whole: Expr, position: int) -> Expr:
        """A component of an element."""
        if not isinstance(whole, Load):
            raise CompilerDefect(f"{whole} has several values, and is no element of an array")
        name, dtype = self.of(whole.buffer)[position]
        return Load(name, tuple(map(self.components.single, whole.indices)), dtype)


def _over_stores(node: Node, change: Callable[[Store], Node]) -> Node:
    return change(node) if isinstance(node, Store) else with_children(node, lambda child: _over_stores(child, change))


def _not_together(buffer: str, what: str) -> str:
    return (
        f"{what} combines partial results in {buffer}, which have several values, and no instruction updates them "
        "together"
    )


def _words(parts: Parts) -> str:
    return " and ".join(f"{name} ({dtype})" for name, dtype in parts)
