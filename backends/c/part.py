"""What a target adds to the host's source of a function. The emitter is given such parts, and knows none of them.

OpenMP, MPI and CUDA each have a subclass of `HostPart`. What a subclass does not override is as in a function without
it. A part is made for one function; `HostParts` asks all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import cgen

from tiramisu_py.backends.c.expressions.scope import Scope, of_function
from tiramisu_py.backends.c.runtime_files import RuntimeFile
from tiramisu_py.ir import ArrayArgument, LoopFunction, Node
from tiramisu_py.program.storage import Memory

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr
    from tiramisu_py.backends.c.statements import Statements
    from tiramisu_py.backends.c.trace_calls import Log
    from tiramisu_py.ir import Load

Lines = list[cgen.Generable]
Printer = Callable[[Node, Scope], Lines]

#: Bytes of the text that says what the last call found wrong.
ERROR_BYTES = 256


@dataclass(frozen=True)
class Agreement:
    """How a function begins if its callers agree on what is wrong: none of them returns alone.

    In C: `here`, whether this caller takes part and has found nothing wrong; `wrong`, the variable for what it has
    found; `neighbour`, the number of this caller among those of its machine. Where pinned threads take turns, `turn` is
    that number, too, of `turns` callers.
    """

    here: str
    wrong: str
    neighbour: str
    turn: str
    turns: str


class HostPart:
    """What one target adds to the host's source of `function`, whose names in C are `names`.

    `parts` are all parts of the function, this one among them.
    """

    #: What the header includes of the system.
    headers: ClassVar[tuple[str, ...]] = ()
    #: What the library is linked with.
    libraries: ClassVar[tuple[str, ...]] = ()
    #: Whether the function has a single body: its versions differ in variables, and it is not divided.
    one_body: ClassVar[bool] = False
    #: Whether each temporary is allocated by itself.
    one_by_one: ClassVar[bool] = False
    #: Whether the library needs the runtime of GPUs, and a device to run on.
    uses_gpu: ClassVar[bool] = False
    error_bytes: ClassVar[int] = ERROR_BYTES
    agreement: ClassVar[Agreement | None] = None

    def __init__(self, function: LoopFunction, names: Mapping[str, str], parts: HostParts, log: Log) -> None:
        self.function = function
        self.name = function.name
        self.names = names
        self.parts = parts
        self.log = log

    @classmethod
    def concerns(cls, function: LoopFunction) -> bool:
        """Whether the function has this part."""
        raise NotImplementedError

    @classmethod
    def own_names(cls, function: LoopFunction, inside: Sequence[str]) -> list[str]:
        """What the source calls its own beside the names `inside`, which are made to differ."""
        return []

    @property
    def scope(self) -> Scope:
        """What is in sight where the function's body begins."""
        return of_function(self.function, self.names)

    # -- files, and the header

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The files that go with the source."""
        return ()

    def documentation(self) -> list[str]:
        """Lines of the header about the function."""
        return []

    def places(self) -> list[str]:
        """Lines of the header about its arguments."""
        return []

    def parameters(self) -> list[str]:
        """Parameters of the function in C, before its own."""
        return []

    def declarations(self) -> Lines:
        """Declarations of the header, after those of the function."""
        return []

    # -- the source around the body

    def definitions(self) -> Lines:
        """Definitions before the function."""
        return []

    def check_parameters(self) -> list[tuple[str, str]]:
        """Parameters of the function's check before its own: each declaration, and what is given for it."""
        return []

    def first_checks(self) -> Lines:
        """What is checked before the sizes."""
        return []

    def checks(self) -> Lines:
        """What is checked between the sizes and the arrays."""
        return []

    def array_faults(self, array: ArrayArgument) -> list[tuple[str, str]]:
        """What may be wrong with an array: each condition in C, and the words that follow the array's name."""
        return []

    def check(self, call: str, used: set[str]) -> Lines | None:
        """Where the function begins: the call of its check, and what follows from it; None for the plain way.

        `used` are the names that the body mentions.
        """
        return None

    def checked(self) -> Lines:
        """After the checks, while the function can still simply return."""
        return []

    def begin(self) -> Lines:
        """Then: what `leaving` gives back from now on."""
        return []

    def logged(self) -> Lines:
        """After that, in a function with a trace: what its log is told."""
        return []

    def prepare(self) -> Lines:
        """Last before the body."""
        return []

    def end(self) -> Lines:
        """After the body."""
        return []

    def give_back(self) -> Lines:
        """Where callers that have begun agree that something is wrong: what they give back before they return."""
        return []

    def leaving(self, code: str) -> str:
        """What the function returns instead of a code, at its end or where it fails."""
        return code

    def abandon(self, code: str) -> str | None:
        """How the function is left in its middle with a code, its words in the error's text; None: it returns."""
        return None

    # -- statements

    def printers(self, statements: Statements) -> Mapping[type | Memory, Printer]:
        """What prints nodes, by their class; loops, by the class of their tag; temporaries, by their memory.

        `statements` prints what is inside.
        """
        return {}

    def before(self, node: Node) -> Lines:
        """What comes before a statement."""
        return []

    def together(self, nodes: Sequence[Node], scope: Scope) -> Lines | None:
        """Several statements that follow each other as one, if `joins` says so of each two."""
        return None

    def joins(self, node: Node, following: Node) -> bool:
        """Whether two statements are printed together."""
        return False

    def atomic(self, place: str, target: Load, value: Expr, scope: Scope) -> Lines | None:
        """``target = value`` as one step that no other thread can come between; the value reads the target."""
        return None

    def allocated(self, name: str, kind: str, memory: str, words: str, released: str) -> Lines | None:
        """A pointer to memory that the call `memory` answers, and what is done where it is NULL."""
        return None

    def out_of_memory(self, message: str) -> cgen.Generable | None:
        """What is done where memory is missing; None: the function reports it and is left."""
        return None

    def thread_failed(self) -> Lines:
        """How one of several threads says that it has failed."""
        return []


class HostParts:
    """The parts of one function, asked together: a sequence of them, in the order in which they begin."""

    def __init__(self) -> None:
        self._parts: tuple[HostPart, ...] = ()

    @staticmethod
    def of(function: LoopFunction, kinds: Sequence[type[HostPart]], names: Mapping[str, str], log: Log) -> HostParts:
        """Those of `kinds` that concern a function."""
        made = HostParts()
        made._parts = tuple(kind(function, names, made, log) for kind in kinds if kind.concerns(function))
        return made

    def __iter__(self) -> Iterator[HostPart]:
        return iter(self._parts)

    @property
    def agreement(self) -> Agreement | None:
        """How the callers agree, if they do."""
        return next((part.agreement for part in self if part.agreement), None)

    @property
    def one_body(self) -> bool:
        """Whether the function has a single body."""
        return any(part.one_body for part in self)

    @property
    def one_by_one(self) -> bool:
        """Whether each temporary is allocated by itself."""
        return any(part.one_by_one for part in self)

    @property
    def error_bytes(self) -> int:
        """Bytes of the text of the last error."""
        return max((part.error_bytes for part in self), default=ERROR_BYTES)

    def lines(self, ask: Callable[[HostPart], Sequence[cgen.Generable]]) -> Lines:
        """What all of them add at one place."""
        return [line for part in self for line in ask(part)]

    def check(self, call: str, used: set[str]) -> Lines:
        """Where the function begins: its check."""
        begun = next((lines for lines in (part.check(call, used) for part in self) if lines is not None), None)
        if begun is not None:
            return begun
        wrong = cgen.If(cgen.Line("wrong"), cgen.Statement("return wrong"))
        return [cgen.Statement(f"const int wrong = {call}"), wrong]

    def fails(self, condition: str, code: str) -> cgen.Generable:
        """A step of the beginning, which fails with a code under a condition."""
        agreement = self.agreement
        if agreement is None:
            return cgen.If(cgen.Line(condition), cgen.Statement(f"return {code}"))
        return cgen.If(cgen.Line(f"{agreement.here} && {condition}"), cgen.Statement(f"{agreement.wrong} = {code}"))

    def leaving(self, code: str) -> str:
        """What the function returns instead of a code."""
        for part in self:
            code = part.leaving(code)
        return code

    def abandon(self, code: str) -> str:
        """The statement that leaves the function in its middle with a code."""
        return next((way for way in (part.abandon(code) for part in self) if way is not None), f"return {code}")

    def printers(self, statements: Statements) -> dict[type | Memory, Printer]:
        """What prints nodes."""
        return {kind: printer for part in self for kind, printer in part.printers(statements).items()}

    def runs(self, nodes: Sequence[Node]) -> Iterator[list[Node]]:
        """The statements one by one, but those that are printed together."""
        run: list[Node] = []
        for node in nodes:
            if run and not any(part.joins(run[-1], node) for part in self):
                yield run
                run = []
            run.append(node)
        if run:
            yield run

    def together(self, nodes: Sequence[Node], scope: Scope) -> Lines:
        """Statements that are printed together."""
        return self._first(lambda part: part.together(nodes, scope))

    def atomic(self, place: str, target: Load, value: Expr, scope: Scope) -> Lines:
        """An update in one step."""
        return self._first(lambda part: part.atomic(place, target, value, scope))

    def allocated(self, name: str, kind: str, memory: str, words: str, released: str) -> Lines | None:
        """A pointer to memory, where a part has it its own way."""
        found = (part.allocated(name, kind, memory, words, released) for part in self)
        return next((lines for lines in found if lines is not None), None)

    def out_of_memory(self, message: str) -> cgen.Generable | None:
        """What is done where memory is missing, where a part has it its own way."""
        return next((line for line in (part.out_of_memory(message) for part in self) if line is not None), None)

    def _first(self, ask: Callable[[HostPart], Lines | None]) -> Lines:
        found = next((lines for lines in map(ask, self) if lines is not None), None)
        assert found is not None, "no part of the function prints this"
        return found
