"""The object that all commands change: an algorithm and its schedule, as one immutable program after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self

import islpy as isl

from tiramisu_py import view
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.domains.domain import parse_context
from tiramisu_py.algorithm.domains.references import Owner
from tiramisu_py.algorithm.expressions import Expr, Param
from tiramisu_py.algorithm.misuse import check_unpacked
from tiramisu_py.algorithm.names import check_name
from tiramisu_py.algorithm.types import DType
from tiramisu_py.derive.completion import complete
from tiramisu_py.errors import CallError, CommandError, DeclarationError
from tiramisu_py.function.applying.caller import caller
from tiramisu_py.function.applying.own_calls import OwnCalls
from tiramisu_py.program.command import Command, Entry
from tiramisu_py.program.initial import by_index_if_moved, caught_up, initial_program
from tiramisu_py.program.ordering import may_contradict, static_positions
from tiramisu_py.program.program import Program
from tiramisu_py.progress import step
from tiramisu_py.proof import Report
from tiramisu_py.schedule.command_fields import of_owner
from tiramisu_py.schedule.loops.run_bounds import with_run_bounds


class Scheduled(OwnCalls):
    """An algorithm and the schedule that says how it runs; handles refer to this object."""

    def __init__(self, name: str, params: Sequence[Param] = (), assume: str | Expr | None = None) -> None:
        self.name = check_name(name, "a function", linked=True)
        if isinstance(params, Param) or not isinstance(params, Iterable):
            raise DeclarationError(f"params= of {name} is {params!r}; give a list of parameters, such as [{params}]")
        names = tuple(_param_name(given) for given in params)
        if len(set(names)) < len(names):
            raise DeclarationError(f"{name} names a parameter twice: {', '.join(names)}")
        context = isl.Context()
        defined = parse_context(context, names, assume)
        algorithm = Algorithm(name, context, names, defined, owner=Owner(self.name), assume=assume)
        self._begin(initial_program(algorithm))

    def _begin(self, program: Program) -> None:
        self._program = program
        self.owner = program.algorithm.owner
        self._completed: tuple[Program, Program] | None = None
        self._checked: tuple[Program, Report] | None = None
        self._lowered: tuple[Program, tuple[int, str | None], view.ReadableLoops] | None = None
        self._arrays: Mapping[str, Any] = {}  # those that programs fill
        self._drafted: dict[str, tuple[DType | None, int]] = {}  # the types and ranks of a group before its end

    @classmethod
    def of(cls, algorithm: Algorithm, commands: Iterable[Command] = ()) -> Self:
        """The function of an algorithm, with these commands applied to it, one after another.

        ::

            g = tm.Function.of(f.algorithm, f.commands[:-1])        f without its last command

        The commands may come from another function or from a file. They refer by name to computations, loops and
        buffers, which must be in the algorithm or be made by earlier commands. Raises `CommandError` as they do.
        """
        if not isinstance(algorithm, Algorithm):
            raise DeclarationError(
                f"{algorithm!r} is not an algorithm: Function.of takes the algorithm of a function, f.algorithm, and "
                "commands; tm.load reads a file, and f.copy() copies a function"
            )
        if not isinstance(commands, Iterable) or isinstance(commands, Scheduled):
            raise CommandError(f"{commands!r} is no list of commands: give Function.of those of a function, f.commands")
        made = object.__new__(cls)
        made.name = algorithm.name
        owner = Owner(algorithm.name) if algorithm.owner is None else algorithm.owner
        made._begin(initial_program(replace(algorithm, owner=owner)))
        for command in commands:
            if not isinstance(command, Command):
                raise CommandError(f"{command!r} is not a command: give those of a function, f.commands")
            made.apply(of_owner(command, owner))
        return made

    def __repr__(self) -> str:
        return f"<function {self.name}>"

    if not TYPE_CHECKING:

        def __call__(self, *arguments: object, **named: object) -> NoReturn:
            raise CallError(
                f"{self.name} is compiled before it is called: write kernel = {self.name}.compile(), and kernel(...); "
                f"{self.name}.evaluate(...) computes its values without compiling"
            )

    @property
    def program(self) -> Program:
        """The scheduled program as it stands: an immutable value."""
        return self._program

    @property
    def completed(self) -> Program:
        """The program after the steps of its completion, which is proven and emitted."""
        if self._completed is None or self._completed[0] is not self._program:
            with step(f"{self.name}: what the schedule leaves to be derived"):
                self._completed = (self._program, complete(self._program))
        return self._completed[1]

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm as declared, which defines the values: Layer I."""
        return self._program.algorithm.as_declared

    def _type_in_group(self, name: str) -> tuple[DType, int]:
        """The type of a computation's values and the number of their indices, in a group before its end."""
        if name not in self._drafted:
            raise DeclarationError(f"{name} was not declared: its group ended with an error")
        dtype, rank = self._drafted[name]
        if dtype is None:
            raise DeclarationError(
                f"{name} has no type before its group ends: give its dtype=, or give what reads it as a function, "
                f"lambda: ... {name}[...] ..."
            )
        return dtype, rank

    def _refuse_in_group(self, subject: str, error: type[CommandError] | type[DeclarationError]) -> None:
        """Refuse what needs the computations of a group before its end, when they are declared."""
        if self._drafted:
            group = ", ".join(self._drafted)
            raise error(f"{subject}: the group of {group} is not at its end: write this after the with statement")

    def apply(self, command: Command) -> None:
        """Apply a command that is given as a value, such as one of `commands`; if it raises, the program is unchanged.

        ::

            for each in f.commands:     -->   g, with the loops as declared, has those of f
                g.apply(each)
        """
        self._refuse_in_group(str(command), CommandError)
        if self._open_domains:
            raise CommandError(f"{command}: {self._open_domains}, before commands")
        try:
            changed = by_index_if_moved(with_run_bounds(command.applied(self._program), self._program))
            if may_contradict(self._program.statements, self._program.orders, changed.statements, changed.orders):
                static_positions(changed.statements, changed.orders)  # refuses orders that contradict each other
        except isl.Error as error:
            raise CommandError(f"{command}: isl cannot do this ({error})") from None
        except (CommandError, DeclarationError) as error:
            raise type(error)(f"{command}: {error}") from None
        self._program = changed.after(self._program, Entry(command, caller()))

    @property
    def _subject(self) -> tuple[str, Self]:
        return self.name, self

    def _apply(self, command: Command) -> None:
        self.apply(command)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Apply all commands of a ``with`` statement, or none: an error takes back those before it.

        ::

            with f.all_or_nothing():
                p.split(i, 8, i0, i1)       -->     both, or neither: where q refuses, p is not split
                q.compute_at(p, i0)

        What the statement declares stays. The error is raised as it is.
        """
        before = self._program
        try:
            yield
        except BaseException:
            self._program = caught_up(before, self._program)
            raise

    @property
    def _open_domains(self) -> str:
        """The domains that are still to be inferred, and what to do; empty if there are none."""
        names = [each.name for each in self._program.algorithm.computations.values() if each.is_open]
        if not names:
            return ""
        return (
            f"the domain of {', '.join(names)} follows from what is read of it up to the outputs: call "
            f"{self.name}.outputs(...)"
        )

    if TYPE_CHECKING:  # defined in `Function`

        def __getitem__(self, name: str) -> Any: ...

        def _declare_keys(self, source: str, given: Sequence[Expr], name: str, *, of_terms: bool = False) -> None: ...

    def _check_own(self, handle: object, kinds: Any) -> None:
        if not isinstance(handle, kinds):
            raise CommandError(f"{handle!r} is not a computation of {self.name}")
        if handle._function is not self:
            raise CommandError(
                f"{handle!r} is not a computation of {self.name}, but of another function, {handle._function.name}"
            )

    def _begin_again(self, algorithm: Algorithm) -> None:
        """Give the commands so far to another algorithm, as if that had been declared."""
        log = self._program.log
        self._program = initial_program(algorithm)
        for entry in log:
            changed = by_index_if_moved(entry.command.applied(self._program))
            self._program = changed.after(self._program, entry)

    def undo(self) -> None:
        """Undo the last command; raises `CommandError` if there is none."""
        if self._program.origin.parent is None:
            raise CommandError(f"{self.name} has no command to undo")
        self._program = caught_up(self._program.origin.parent, self._program)

    def copy(self) -> Self:
        """A function with the same algorithm and schedule, scheduled independently; ``copy["by"]`` is its own by."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()  # all that it holds is immutable

    def __reduce__(self) -> NoReturn:
        raise DeclarationError(
            f"the function {self.name} cannot be pickled: its sets and its schedule belong to this process; pickle the "
            f"kernel, {self.name}.compile(), or let the other process run the script that makes {self.name}"
        )

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands that made the schedule, in order: values, whose text is as the user would write it."""
        return tuple(entry.command for entry in self._program.log)


def _param_name(given: object) -> str:
    check_unpacked(given)
    if not isinstance(given, Param):
        raise DeclarationError(f"{given!r} is not a parameter: make parameters with tm.params")
    return check_name(given.name, "a parameter")
