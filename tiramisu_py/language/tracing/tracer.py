"""The statements of a kernel: from its syntax tree to block IR. The function itself is never executed."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tiramisu_py.errors import DeclarationError
from tiramisu_py.language import words
from tiramisu_py.language.ir.nodes import Argument, BlockKernel, BlockLoop, BlockType, BlockValue, Operand
from tiramisu_py.language.ir.scalars import block_type, dtype_of
from tiramisu_py.language.tracing.builder import Builder
from tiramisu_py.language.tracing.source import BlockSource
from tiramisu_py.language.tracing.symbols import (
    ArrayOperand,
    Offsets,
    PlaceOf,
    Stride,
    Undefined,
    is_operand,
    is_static,
)
from tiramisu_py.language.tracing.word_calls import WordCalls
from tiramisu_py.records import dataclass

#: How often a loop is read again, until the types of what it carries are known.
_ROUNDS = 4
#: The deepest chain of kernels that call each other.
_DEEPEST = 20


@dataclass(frozen=True)
class ArrayType:
    """An array of the caller's: the type of its elements and the number of its dimensions."""

    scalar: str
    rank: int


def traced(source: BlockSource, given: Mapping[str, Any], grid: Sequence[str]) -> BlockKernel:
    """The block IR of a kernel for some arguments: constants, `ArrayType` and `BlockType` of scalars.

    Raises `SourceError` with the line of what cannot be used.
    """
    builder, scope, arguments = Builder(), dict[str, Any](), list[Argument]()
    for name in source.arguments:
        kind = given[name]
        if isinstance(kind, ArrayType):
            value = builder.value(name, BlockType(f"{kind.scalar}*"))
            scope[name] = ArrayOperand(name, value, kind.rank)
            arguments.append(Argument(value, (f"rank({kind.rank})",)))
        elif isinstance(kind, BlockType):
            scope[name] = builder.value(name, kind)
            arguments.append(Argument(scope[name]))
        else:
            scope[name] = kind
    tracer = Tracer(source, builder, scope)
    tracer.run(source.tree.body)
    return BlockKernel(source.name, tuple(arguments), tuple(builder.nodes), tuple(grid))


class Tracer(WordCalls):
    """Reads the statements of one function in one scope."""

    def __init__(
        self,
        source: BlockSource,
        builder: Builder,
        scope: dict[str, Any],
        path: BlockValue | None = None,
        depth: int = 0,
    ):
        self.source, self.builder, self.scope, self.path, self._depth = source, builder, scope, path, depth
        self._inside: list[ast.stmt] = []
        self.returned: Any = None

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Read statements one after another."""
        for node in body:
            reader = getattr(self, f"_do_{type(node).__name__}", None)
            if reader is None:
                self.refuse(
                    node, _INSTEAD.get(type(node).__name__, f"{type(node).__name__} has no meaning in a kernel")
                )
            self.builder.line = self.source.line(node)
            reader(node)

    # -- plain statements

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.read(node.value)

    def _do_Assert(self, node: ast.Assert) -> None:
        test = self.read(node.test)
        if not is_static(test) or not test:
            self.refuse(node, "the assertion does not hold" if is_static(test) else "of sizes say tl.assume(...)")

    def _do_Return(self, node: ast.Return) -> None:
        if self._inside or node is not self.source.tree.body[-1]:
            self.refuse(
                node, "return is the last statement of a kernel: choose with tl.where, or with if around stores"
            )
        self.returned = None if node.value is None else self.read(node.value)

    def _do_Assign(self, node: ast.Assign) -> None:
        (target, *others) = node.targets
        if (
            isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(target.elts) == len(node.value.elts)
        ):
            value: Any = tuple(map(self._named, target.elts, node.value.elts))
        else:
            value = self._named(target, node.value)
        for each in (target, *others):
            self._assign(each, value)

    def _named(self, target: ast.expr, node: ast.expr) -> Any:
        """The value of an expression, called as the variable that it is assigned to."""
        value = self.read(node)
        is_new = isinstance(target, ast.Name) and isinstance(value, BlockValue)
        return self.builder.named(value, target.id) if is_new else value  # type: ignore[attr-defined]

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self._named(node.target, node.value))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "only variables change: store to a place with tl.store")
        self.builder.line = self.source.line(node)
        left, right = self.read(ast.copy_location(ast.Name(node.target.id, ast.Load()), node)), self.read(node.value)
        if isinstance(node.op, ast.MatMult):
            self.refuse(node, "@= has no meaning in a kernel: acc = tl.dot(a, b, acc)")
        whole = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        try:
            value = self.combined(whole, node.op, left, right)
            self._assign(
                node.target, self.builder.named(value, node.target.id) if isinstance(value, BlockValue) else value
            )
        except DeclarationError as error:
            raise self.source.located(node, error) from None

    def _assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.scope[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            if not isinstance(value, tuple | list) or len(value) != len(target.elts):
                self.refuse(target, f"{len(target.elts)} values were expected")
            for each, own in zip(target.elts, value, strict=True):
                self._assign(each, own)
        else:
            self.refuse(target, "only variables are assigned: store to a place with tl.store(place, value)")

    # -- choices

    def _do_If(self, node: ast.If) -> None:
        test = self.read(node.test)
        if is_static(test):
            self.run(node.body if test else node.orelse)
            return
        chosen = self.condition(node.test, test)
        before, path = dict(self.scope), self.path
        self._inside.append(node)
        yes = self._side(node.body, before, chosen, path)
        no = self._side(node.orelse, before, self.builder.unary("~", chosen), path) if node.orelse else before
        self._inside.pop()
        self.path = path
        self.scope = {name: self._merged(node, chosen, name, yes.get(name), no.get(name)) for name in {**yes, **no}}

    def _side(
        self, body: Sequence[ast.stmt], before: dict[str, Any], test: BlockValue, path: BlockValue | None
    ) -> dict[str, Any]:
        self.scope = dict(before)
        both = test if path is None else self.builder.binary("&", path, test)
        assert isinstance(both, BlockValue)
        self.path = both
        self.run(body)
        return self.scope

    def _merged(self, node: ast.If, test: BlockValue, name: str, yes: Any, no: Any) -> Any:
        """The meaning of a name after both sides."""
        if yes is no:
            return yes
        if is_operand(yes) and is_operand(no):
            return self.builder.select(test, yes, no)
        return Undefined(f"only one side of the if in line {self.source.line(node)} gives it one")

    # -- loops

    def _do_For(self, node: ast.For) -> None:
        if node.orelse:
            self.refuse(node, "a loop has no else")
        call = node.iter
        if not isinstance(call, ast.Call) or not isinstance(node.target, ast.Name):
            self.refuse(node, "a loop is for k in tl.range(low, high, step)")
        function = self.read(call.func)
        bounds = [self.read(each) for each in call.args]
        known = {each.arg for each in call.keywords}
        stages = next((self.read(each.value) for each in call.keywords if each.arg == "num_stages"), None)
        if stages not in (None, 1):
            self.refuse(
                node, f"num_stages={stages!r} of a loop: give num_stages= to tm.recipes.blocks, or with the arrays"
            )
        if function is words.static_range:
            self._repeat(node, node.target.id, bounds)
        elif function is words.range or function is range:
            if not known <= {"num_stages", "warp_specialize", "disallow_acc_multi_buffer", "flatten"}:
                self.refuse(node, "tl.range takes low, high and step")
            self._loop(node, node.target.id, bounds)
        else:
            self.refuse(node, "a loop is for k in tl.range(low, high, step), or over tl.static_range")

    def _repeat(self, node: ast.For, name: str, bounds: list[Any]) -> None:
        if not all(isinstance(each, int) for each in bounds) or not 1 <= len(bounds) <= 3:
            self.refuse(node, "the bounds of tl.static_range are constants; of sizes write tl.range")
        for k in range(*bounds):
            self.scope[name] = k
            self.run(node.body)

    def _loop(self, node: ast.For, name: str, bounds: list[Any]) -> None:
        if not 1 <= len(bounds) <= 3:
            self.refuse(node, "tl.range takes low, high and step")
        low, high = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else 1
        for each in (low, high, step):
            if (
                not is_operand(each)
                or not dtype_of(each).is_integer
                or (isinstance(each, BlockValue) and each.type.shape)
            ):
                self.refuse(node, "the bounds of a loop are integers: constants, sizes, program numbers or loaded ones")
        if is_static(step) and step < 1:
            self.refuse(node, f"the step of a loop is {step}; it is at least 1")
        changed = [each for each in _assigned(node.body) if each in self.scope and each != name]
        before = dict(self.scope)
        initial = [operand for each in changed for operand in self._parts(node, each, before[each])]
        types = [_type(each) for each in initial]
        names = self.builder.names()
        for _ in range(_ROUNDS):
            self.builder.forget(names)
            found = self._body(node, name, (low, high, step), changed, initial, types, before)
            after = [_type(each) for each in found.yields]
            if after == types:
                self._finish(found, changed, before)
                return
            wrong = [
                k
                for k, (a, b) in enumerate(zip(types, after, strict=True))
                if a != b and isinstance(initial[k], BlockValue)
            ]
            if wrong:
                self.refuse(
                    node, f"the loop begins with {types[wrong[0]]} and goes on with {after[wrong[0]]}: what it carries "
                    "keeps its type and shape"
                )  # fmt: skip
            types = after
        self.refuse(node, "the types of what the loop carries do not settle: begin with blocks, such as tl.zeros(...)")

    def _body(
        self, node: ast.For, name: str, bounds: Sequence[Operand], changed: Sequence[str], initial: Sequence[Operand],
        types: Sequence[BlockType], before: dict[str, Any],
    ) -> BlockLoop:  # fmt: skip
        """The loop, with the types that its carried values begin with."""
        b = self.builder
        begun = [self._as_type(value, type_) for value, type_ in zip(initial, types, strict=True)]
        with b.inside() as nodes:
            kind = dtype_of(bounds[0]) if isinstance(bounds[0], BlockValue) else words.int64
            index = b.value(name, block_type(words.int64 if kind.weak else kind))
            names = [each for each in changed for _ in self._parts(node, each, before[each])]
            carried = [b.value(f"{own}_before", type_) for own, type_ in zip(names, types, strict=True)]
            self.scope = {**before, **self._rebuilt(changed, before, carried), name: index}
            self._inside.append(node)
            self.run(node.body)
            self._inside.pop()
            yields = [part for each in changed for part in self._parts(node, each, self.scope[each])]
        low, high, step = bounds
        return BlockLoop(
            index,
            low,
            high,
            step,
            tuple(nodes),
            tuple(carried),
            tuple(begun),
            tuple(yields),
            (),
            self.source.line(node),
        )

    def _finish(self, found: BlockLoop, changed: Sequence[str], before: dict[str, Any]) -> None:
        """The names after a loop; those that it alone has given a value have none."""
        results = tuple(self.builder.value(each.name.removesuffix("_before"), each.type) for each in found.carried)
        self.builder.nodes.append(replace(found, results=results))
        why = f"the loop in line {found.line} gives it one in each iteration; begin with one before it"
        inner = {name: Undefined(why) for name in self.scope if name not in before}
        self.scope = {**before, **inner, **self._rebuilt(changed, before, results)}

    def _parts(self, node: ast.AST, name: str, given: Any) -> list[Operand]:
        """The operands of which a name consists that a loop changes."""
        if is_operand(given):
            return [given]
        if isinstance(given, Offsets | PlaceOf):
            return list(given.indices)
        if isinstance(given, tuple | list):
            return [part for each in given for part in self._parts(node, name, each)]
        if is_static(given):
            return []
        raise self.source.refusal(node, f"{name} changes in a loop, and is no value")

    def _rebuilt(self, names: Sequence[str], before: Mapping[str, Any], operands: Sequence[Operand]) -> dict[str, Any]:
        left = list(operands)

        def rebuilt(given: Any) -> Any:
            if is_operand(given):
                return left.pop(0)
            if isinstance(given, Offsets | PlaceOf):
                return replace(given, indices=tuple(left.pop(0) for _ in given.indices))
            if isinstance(given, tuple | list):
                return tuple(rebuilt(each) for each in given)
            return given

        return {name: rebuilt(before[name]) for name in names}

    def _as_type(self, value: Operand, type_: BlockType) -> Operand:
        """A number that a loop begins with, in the type that it goes on with."""
        if isinstance(value, BlockValue):
            return value
        return self.builder.emit("splat", type_, [value]) if type_.shape else value

    # -- calls

    def inlined(self, node: ast.Call, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A call of another kernel: its body, read with these arguments."""
        callee: BlockSource = function.__tiramisu_source__
        if self._depth >= _DEEPEST:
            self.refuse(node, f"{callee.name} calls itself: write a loop")
        given = dict(zip(callee.arguments, arguments, strict=False))
        missing = [each for each in callee.arguments if each not in {**callee.defaults, **given, **named}]
        unknown = [each for each in named if each not in callee.arguments or each in given]
        if missing or unknown or len(arguments) > len(callee.arguments):
            self.refuse(node, f"{callee.name} takes {', '.join(callee.arguments)}")
        scope = {**callee.defaults, **given, **named}
        for name in callee.constants:
            if not is_static(scope[name]):
                self.refuse(node, f"{name} of {callee.name} is tl.constexpr, a constant")
        inner = Tracer(callee, self.builder, scope, self.path, self._depth + 1)
        inner.run(callee.tree.body)
        return inner.returned

    def stride_of(self, of: ArrayOperand, axis: int) -> Stride:
        """The distance of neighbours along an axis."""
        return Stride(of, axis)


def _type(operand: Operand) -> BlockType:
    return operand.type if isinstance(operand, BlockValue) else block_type(dtype_of(operand))


def _assigned(body: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign, in order."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)


_INSTEAD = {
    "While": "while has no bound: write for k in tl.range(low, high, step), with a mask inside for what ends early",
    "Break": "break leaves a loop at a value: let the loop run to its bound, and mask what is not needed",
    "Continue": "continue: write if around the rest of the body, or mask its loads and stores",
    "FunctionDef": "a kernel has no functions inside: write another @tm.jit beside it, and call that",
    "Global": "a kernel has no variables but its own: pass constants as arguments, N: tl.constexpr",
    "Nonlocal": "a kernel has no variables but its own: pass constants as arguments, N: tl.constexpr",
    "Import": "import the module at the top of the file",
    "ImportFrom": "import the module at the top of the file",
    "Try": "a kernel raises nothing",
    "With": "with has no meaning in a kernel",
    "Raise": "a kernel raises nothing: tl.static_assert for constants",
    "Delete": "del has no meaning in a kernel",
    "ClassDef": "a kernel has no classes",
}
