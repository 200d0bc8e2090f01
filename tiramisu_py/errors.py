"""One family of exceptions, and the plain data they carry.

Every exception derives from `TiramisuError`; those that have a built-in counterpart also inherit it, so
that ``except ValueError`` works as a Python programmer expects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from tiramisu_py.records import dataclass

#: The kinds of refusal, as the design names them.
KINDS = (
    "order",
    "overwritten",
    "race",
    "bounds",
    "reach",
    "communication",
    "deadlock",
    "reduction",
    "algorithm",
    "unknown",
)


@dataclass(frozen=True)
class Witness:
    """The smallest counterexample of a violation, in the user's own coordinates.

    `params` gives the parameters; `writer` and `reader` are ``(value name, value indices)``, or None where the
    violation has no such side; `element` is the touched ``(buffer, indices)``, if there is one.
    """

    params: Mapping[str, int]
    writer: tuple[str, tuple[int, ...]] | None = None
    reader: tuple[str, tuple[int, ...]] | None = None
    element: tuple[str, tuple[int, ...]] | None = None

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.params.items())
        return f"at {sizes}" if sizes else "for every size"


@dataclass(frozen=True)
class Violation:
    """One reason why a program is refused.

    `kind` is one of `KINDS`; `message` says what is wrong at the witness; `command` is the command to blame
    (the first after the last legal prefix; empty where the algorithm itself is at fault); `repair` says what
    would make the program right, or is empty.
    """

    kind: str
    message: str
    witness: Witness
    command: str = ""
    repair: str = ""

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.message}"]
        if self.command:
            lines.append(f"  command: {self.command}")
        if self.repair:
            lines.append(f"  repair:  {self.repair}")
        return "\n".join(lines)


class TiramisuError(Exception):
    """Base of everything that this package raises on purpose."""


class DeclarationError(TiramisuError, ValueError):
    """A declaration (type, domain, expression, buffer) does not make sense."""


class DTypeError(TiramisuError, TypeError):
    """Scalar types do not fit together."""


class CallError(TiramisuError, TypeError):
    """A method or a function is called with an argument too few or too many, or something is called that cannot be."""


class UnknownNameError(TiramisuError, AttributeError):
    """An object of this package is asked for an attribute that it does not have."""


class CommandError(TiramisuError, ValueError):
    """A scheduling command has an argument that cannot be used; the program is unchanged."""


class ArgumentError(TiramisuError, ValueError):
    """A compiled kernel, or `evaluate()`, was called with an argument that does not fit."""


class SavedError(TiramisuError, ValueError):
    """A function cannot be saved in a file, or a file cannot be read as one that `Function.save` wrote."""


class ToolchainError(TiramisuError, RuntimeError):
    """A C compiler is missing, or refused the generated source."""


class KernelError(TiramisuError, RuntimeError):
    """A generated function returned an error code."""


class TuningError(TiramisuError, RuntimeError):
    """A kernel computes wrong values when it is measured, or the database of measurements cannot be used."""


class UnsupportedError(TiramisuError, RuntimeError):
    """A legal program that this version cannot turn into code: `what` is the obstacle, `repair` what to change."""

    def __init__(self, what: str, repair: str = "") -> None:
        super().__init__(f"{what}: {repair}" if repair else what)
        self.what = what
        self.repair = repair


class CompilerDefect(UnsupportedError):
    """A proven program that the compiler cannot turn into code; the proof should have refused it: please report it.

    A program that `check()` proves can be emitted, unless something that only `compile()` knows prevents it (the
    target, its compiler).
    """

    def __str__(self) -> str:
        return f"{super().__str__()}; if check() has proven the program, this is a defect of it: please report it"


@dataclass(eq=False)
class LegalityError(TiramisuError):
    """The program would not compute what the algorithm says: it is refused, with the reasons."""

    violations: Sequence[Violation] = field(default_factory=tuple)

    @property
    def witness(self) -> Witness:
        """The smallest counterexample of the first violation."""
        return self.violations[0].witness

    @property
    def kind(self) -> str:
        """The kind of the first violation."""
        return self.violations[0].kind

    def __str__(self) -> str:
        return "\n".join(str(violation) for violation in self.violations)
