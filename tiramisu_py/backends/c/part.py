"""The part that a target adds to the host source of a function. The emitter is given parts, and depends on none.

OpenMP, MPI and CUDA each have a subclass of `HostPart`. A method that a subclass does not override leaves the source as
it is without the part. A part is made for one function; `HostParts` asks all parts of the function together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import cgen

from tiramisu_py.backends.c.expressions.scope import Scope, of_function
from tiramisu_py.backends.c.runtime_files import RuntimeFile
from tiramisu_py.ir import ArrayArgument, LoopFunction, Node
from tiramisu_py.program.storage import Memory
from tiramisu_py.records import dataclass

if TYPE_CHECKING:
    from tiramisu_py.algorithm.expressions import Expr
    from tiramisu_py.backends.c.statements import Statements
    from tiramisu_py.backends.c.trace_calls import Log
    from tiramisu_py.ir import Load

Lines = list[cgen.Generable]
Printer = Callable[[Node, Scope], Lines]

#: The size in bytes of the last call's error text.
ERROR_BYTES = 256


@dataclass(frozen=True)
class Agreement:
    """How a function begins if its callers agree on errors: none of them returns alone.

    In C: `here`, whether this caller takes part and has found no error; `wrong`, the variable for the error code that
    it has found; `neighbour`, the caller's number among those on its machine. Where pinned threads take turns, `turn`
    is that number as well, out of `turns` callers.
    """

    here: str
    wrong: str
    neighbour: str
    turn: str
    turns: str


class HostPart(ABC):
    """The part of one target in the host source of `function`; `names` are the function's names in C.

    `parts` are all parts of the function, this one among them.
    """

    #: The system headers that the header includes.
    headers: ClassVar[tuple[str, ...]] = ()
    #: The linker flags of the library.
    libraries: ClassVar[tuple[str, ...]] = ()
    #: Whether the function has a single body: its versions differ in variables, and it is not divided.
    one_body: ClassVar[bool] = False
    #: Whether each temporary is allocated by itself.
    one_by_one: ClassVar[bool] = False
    #: Whether the library needs the GPU runtime, and a device to run on.
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
    @abstractmethod
    def concerns(cls, function: LoopFunction) -> bool:
        """Whether the function has this part."""

    @classmethod
    def own_names(cls, function: LoopFunction, inside: Sequence[str]) -> list[str]:
        """The names that the source reserves for itself; the names `inside` are made to differ from them."""
        return []

    @property
    def scope(self) -> Scope:
        """The names in scope at the start of the function's body."""
        return of_function(self.function, self.names)

    # -- files, and the header

    def runtime(self) -> tuple[RuntimeFile, ...]:
        """The files that go with the source."""
        return ()

    def documentation(self) -> list[str]:
        """Lines of the header about the function."""
        return []

    def places(self) -> list[str]:
        """Lines of the header about the function's arguments."""
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
        """Extra parameters at the front of the function's check: each declaration, and the argument passed for it."""
        return []

    def first_checks(self) -> Lines:
        """The checks before those of the sizes."""
        return []

    def checks(self) -> Lines:
        """The checks between those of the sizes and those of the arrays."""
        return []

    def array_faults(self, array: ArrayArgument) -> list[tuple[str, str]]:
        """Further faults of an array: each condition in C, and the words after the array's name in the message."""
        return []

    def check(self, call: str, used: frozenset[str]) -> Lines | None:
        """The call of the function's check, and how its result is handled; None for the default.

        `used` are the names that the body mentions.
        """
        return None

    def checked(self) -> Lines:
        """Lines after the checks, where the function can still simply return."""
        return []

    def begin(self) -> Lines:
        """Lines after `checked` that acquire what `leaving` later releases."""
        return []

    def logged(self) -> Lines:
        """Lines after `begin` in a traced function, which write to its log."""
        return []

    def prepare(self) -> Lines:
        """The last lines before the body."""
        return []

    def end(self) -> Lines:
        """Lines after the body."""
        return []

    def give_back(self) -> Lines:
        """Lines that release what `begin` acquired, where the callers agree on an error and return."""
        return []

    def leaving(self, code: str) -> str:
        """The expression that the function returns instead of a code, at its end or where it fails."""
        return code

    def abandon(self, code: str) -> str | None:
        """The statement that leaves the body with a code, after the error's text is set; None for a plain return."""
        return None

    # -- statements

    def printers(self, statements: Statements) -> Mapping[type | Memory, Printer]:
        """The printers of nodes by class, of loops by the class of their tag, of temporaries by memory.

        `statements` prints the statements inside them.
        """
        return {}

    def prints(self, node: Node) -> bool:
        """Whether its printer is for this node, where others have one for the class, too."""
        return True

    def before(self, node: Node) -> Lines:
        """Lines before a statement."""
        return []

    def together(self, nodes: Sequence[Node], scope: Scope) -> Lines | None:
        """Consecutive statements printed as one, where `joins` holds for each adjacent pair."""
        return None

    def joins(self, node: Node, following: Node) -> bool:
        """Whether two adjacent statements are printed together."""
        return False

    def atomic(self, place: str, target: Load, value: Expr, scope: Scope) -> Lines | None:
        """``target = value`` as an atomic update; the value reads the target."""
        return None

    def allocated(self, name: str, kind: str, memory: str, words: str, released: str) -> Lines | None:
        """A pointer to the memory that the call `memory` returns, and the handling of NULL."""
        return None

    def out_of_memory(self, message: str) -> cgen.Generable | None:
        """The statement for a failed allocation; None: the function reports it and returns."""
        return None

    def thread_failed(self) -> Lines:
        """Lines by which one of several threads reports that it has failed."""
        return []


class HostParts:
    """All parts of one function, asked together; a sequence in the order in which they begin."""

    def __init__(self) -> None:
        self._parts: tuple[HostPart, ...] = ()

    @staticmethod
    def of(function: LoopFunction, kinds: Sequence[type[HostPart]], names: Mapping[str, str], log: Log) -> HostParts:
        """The parts of `kinds` that concern a function."""
        made = HostParts()
        made._parts = tuple(kind(function, names, made, log) for kind in kinds if kind.concerns(function))
        return made

    def __iter__(self) -> Iterator[HostPart]:
        return iter(self._parts)

    @property
    def agreement(self) -> Agreement | None:
        """How the callers agree on errors, if they do."""
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
        """The size in bytes of the text of the last error."""
        return max((part.error_bytes for part in self), default=ERROR_BYTES)

    def lines(self, ask: Callable[[HostPart], Sequence[cgen.Generable]]) -> Lines:
        """The lines that all parts add at one place."""
        return [line for part in self for line in ask(part)]

    def check(self, call: str, used: frozenset[str]) -> Lines:
        """The call of the function's check, and how its result is handled."""
        begun = next((lines for lines in (part.check(call, used) for part in self) if lines is not None), None)
        if begun is not None:
            return begun
        wrong = cgen.If(cgen.Line("wrong"), cgen.Statement("return wrong"))
        return [cgen.Statement(f"const int wrong = {call}"), wrong]

    def fails(self, condition: str, code: str) -> cgen.Generable:
        """A step before the body that fails with `code` if `condition` holds."""
        agreement = self.agreement
        if agreement is None:
            return cgen.If(cgen.Line(condition), cgen.Statement(f"return {code}"))
        return cgen.If(cgen.Line(f"{agreement.here} && {condition}"), cgen.Statement(f"{agreement.wrong} = {code}"))

    def leaving(self, code: str) -> str:
        """The expression that the function returns instead of a code."""
        for part in self:
            code = part.leaving(code)
        return code

    def abandon(self, code: str) -> str:
        """The statement that leaves the body with a code."""
        return next((way for way in (part.abandon(code) for part in self) if way is not None), f"return {code}")

    def printers(self, statements: Statements) -> dict[type | Memory, Printer]:
        """The printers of all parts; where several have one for a class, the first whose it is prints a node."""
        found: dict[type | Memory, list[tuple[HostPart, Printer]]] = {}
        for part in self:
            for kind, printer in part.printers(statements).items():
                found.setdefault(kind, []).append((part, printer))
        return {
            kind: listed[0][1] if len(listed) == 1 else _first_that_prints(listed) for kind, listed in found.items()
        }

    def runs(self, nodes: Sequence[Node]) -> Iterator[list[Node]]:
        """The statements, grouped where they are printed together."""
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
        """An atomic update."""
        return self._first(lambda part: part.atomic(place, target, value, scope))

    def allocated(self, name: str, kind: str, memory: str, words: str, released: str) -> Lines | None:
        """A pointer to memory, if a part allocates in its own way."""
        found = (part.allocated(name, kind, memory, words, released) for part in self)
        return next((lines for lines in found if lines is not None), None)

    def out_of_memory(self, message: str) -> cgen.Generable | None:
        """The statement for a failed allocation, if a part has its own."""
        return next((line for line in (part.out_of_memory(message) for part in self) if line is not None), None)

    def _first(self, ask: Callable[[HostPart], Lines | None]) -> Lines:
        found = next((lines for lines in map(ask, self) if lines is not None), None)
        assert found is not None, "no part of the function prints this"
        return found


def _first_that_prints(listed: Sequence[tuple[HostPart, Printer]]) -> Printer:
    def printer(node: Node, scope: Scope) -> Lines:
        return next(own for part, own in listed if part.prints(node))(node, scope)

    return printer
