"""Text to block IR: a kernel as `text_of` prints it, or as the thesis does (Tillet, listing 5.2)."""

from __future__ import annotations

import re

from tiramisu_py.errors import DeclarationError
from tiramisu_py.language.ir.nodes import (
    Argument,
    BlockKernel,
    BlockLoop,
    BlockType,
    BlockValue,
    Instruction,
    Node,
    Operand,
)

_TOKENS = re.compile(r"\s*(?P<token>-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf\b|nan\b)|[A-Za-z_%]\w*|[-<>\[\](){},:;=*.])")
_TYPE = re.compile(r"(?:i|u|f|bf)\d+$|(?:void|int|float)$")
_NUMBER = re.compile(r"-?(?:\d|inf$|nan$)")


def parse(text: str) -> BlockKernel:
    """The kernel that some text describes; ``str(parse(str(kernel))) == str(kernel)``.

    Raises `DeclarationError` with the line that cannot be read.
    """
    return _Reader(text).kernel()


class _Reader:
    """Reads one kernel, token by token."""

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"(?m)^\s*;.*$", "", text)  # lines of comments
        self.at = 0
        self.values: dict[str, BlockValue] = {}

    # -- tokens

    def peek(self) -> str:
        found = _TOKENS.match(self.text, self.at)
        return "" if found is None else found["token"]

    def next(self) -> str:
        found = _TOKENS.match(self.text, self.at)
        if found is None:
            raise self.wrong("the text ends too early" if not self.text[self.at :].strip() else "unknown character")
        self.at = found.end()
        return found["token"]

    def expect(self, token: str) -> None:
        found = self.next()
        if found != token:
            raise self.wrong(f"{token!r} was expected, not {found!r}")

    def taken(self, token: str) -> bool:
        if self.peek() == token:
            self.next()
            return True
        return False

    def wrong(self, why: str) -> DeclarationError:
        number = self.text.count("\n", 0, self.at)
        line = self.text.split("\n")[number].strip()
        return DeclarationError(f"line {number + 1} of the block IR cannot be read: {why}: {line}")

    # -- types and operands

    def type(self) -> BlockType:
        scalar = self.next()
        if not _TYPE.match(scalar):
            raise self.wrong(f"{scalar!r} is not a type")
        if self.taken("*"):
            scalar += "*"
        shape: list[int] = []
        if self.taken("<"):
            while not self.taken(">"):
                shape.append(int(self.next()))
                self.taken(",")
        return BlockType(scalar, tuple(shape))

    def operand(self) -> Operand:
        token = self.next()
        if token in self.values:
            return self.values[token]
        if token in ("true", "false"):
            return token == "true"
        if _NUMBER.match(token):
            return int(token) if re.fullmatch(r"-?\d+", token) else float(token)
        if token == "undef":
            return token
        raise self.wrong(f"{token} is not defined")

    def define(self, name: str, type_: BlockType) -> BlockValue:
        if name in self.values:
            raise self.wrong(f"{name} is defined twice")
        self.values[name] = BlockValue(name, type_)
        return self.values[name]

    # -- structure

    def kernel(self) -> BlockKernel:
        self.expect("def")
        self.expect("void")
        name = self.next()
        self.expect("(")
        arguments: list[Argument] = []
        while not self.taken(")"):
            arguments.append(self.argument())
            self.taken(",")
        grid = self.grid() if self.taken("grid") else ()
        self.expect("{")
        self.expect("entry")
        self.expect(":")
        body = self.body()
        self.expect("}")
        return BlockKernel(name, tuple(arguments), body, grid)

    def argument(self) -> Argument:
        type_ = self.type()
        name = self.next()
        words: list[str] = []
        while self.taken("."):
            word = self.next()
            if self.taken("("):
                word += f"({self.next()})"
                self.expect(")")
            words.append(word)
        return Argument(self.define(name, type_), tuple(words))

    def grid(self) -> tuple[str, ...]:
        found = re.compile(r"\s*\(((?:\[[^\]]*\](?:, )?)*)\)").match(self.text, self.at)
        if found is None:
            raise self.wrong("grid([..], ..) was expected")
        self.at = found.end()
        return tuple(re.findall(r"\[([^\]]*)\]", found[1]))

    def body(self) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while self.peek() not in ("}", "yield"):
            nodes.append(self.node())
        return tuple(nodes)

    def node(self) -> Node:
        start, names = self.at, [self.next()]
        while self.taken(","):
            names.append(self.next())
        if not self.taken("="):
            self.at, names = start, []
        if self.taken("for"):
            return self.loop(names)
        return self.instruction(names)

    def instruction(self, names: list[str]) -> Instruction:
        words = [self.next()]
        static, attributes = list[int](), list[str]()
        while not _TYPE.match(self.peek()):
            token = self.next()
            if token in ("(", "["):
                while not (self.taken(")") or self.taken("]")):
                    static.append(int(self.next()))
                    _ = self.taken(",") or self.taken(":")
            elif token == ".":
                attributes.append(self.next())
            elif token.isidentifier():
                words.append(token)
            else:
                raise self.wrong(f"a type was expected, not {token!r}")
        type_ = self.type()
        operands: list[Operand] = []
        while not self.taken(";"):
            operands.append(self.operand())
            self.taken(",")
        result = self.define(names[0], type_) if names else None
        return Instruction(" ".join(words), type_, tuple(operands), result, tuple(static), tuple(attributes))

    def loop(self, names: list[str]) -> BlockLoop:
        kind, name = self.type(), self.next()
        self.expect("=")
        low = self.operand()
        self.expect("to")
        high = self.operand()
        self.expect("step")
        step = self.operand()
        self.expect("carry")
        self.expect("(")
        given: list[tuple[str, BlockType, Operand]] = []
        while not self.taken(")"):
            type_, own = self.type(), self.next()
            self.expect("=")
            given.append((own, type_, self.operand()))
            self.taken(",")
        index = self.define(name, kind)
        carried = tuple(self.define(own, type_) for own, type_, _ in given)
        self.expect("{")
        body = self.body()
        self.expect("yield")
        self.expect("(")
        yields: list[Operand] = []
        while not self.taken(")"):
            yields.append(self.operand())
            self.taken(",")
        self.expect(";")
        self.expect("}")
        if len(names) != len(carried) or len(yields) != len(carried):
            raise self.wrong(f"the loop carries {len(carried)} values, gives {len(names)} and yields {len(yields)}")
        results = tuple(self.define(own, value.type) for own, value in zip(names, carried, strict=True))
        return BlockLoop(index, low, high, step, body, carried, tuple(i for *_, i in given), tuple(yields), results)
