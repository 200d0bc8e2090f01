"""Calls with bound arguments, which are checked once and run any number of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy.typing as npt

from tiramisu_py.errors import ArgumentError, KernelError


class BoundCall:
    """A call of a kernel on the same arrays: ``step = kernel.bound(a, b, c=c)``, then ``step()`` any number of times.

    It keeps the arrays alive, and each call reads what they hold then. Its results, which `bound` allocated or the
    caller passed, are the same arrays in every call.
    """

    __slots__ = ("_failure", "_kept", "_name", "_results", "_run", "_written")

    def __init__(
        self,
        name: str,
        run: Callable[[], int | None],
        failure: Callable[[int], KernelError],
        results: Any,
        written: Mapping[str, npt.NDArray[Any]],
        kept: Any,
    ) -> None:
        """`run` calls the function and returns its code, of which `failure` makes an error. `written` are the arrays of
        the host that it writes, by name.
        """
        self._name, self._run, self._failure, self._results, self._kept = name, run, failure, results, kept
        self._written = tuple(written.items())

    def __call__(self, *others: object, **named: object) -> Any:
        """Runs the function, and returns what a call of the kernel does. Raises `KernelError` if it fails.

        Takes no arguments; raises `ArgumentError` for any, and if an array that it writes was made read-only.
        """
        if others or named:
            raise ArgumentError(
                f"a bound call of {self._name} has its arguments: change what the arrays hold, or bind others, "
                "kernel.bound(...)"
            )
        for name, array in self._written:
            if not array.flags.writeable:
                raise ArgumentError(
                    f"{name} is written, and was made read-only after it was bound: make it writeable, or bind another "
                    f"array as {name}"
                )
        code = self._run()
        if code:
            raise self._failure(code)
        return self._results

    def __reduce__(self) -> NoReturn:
        raise ArgumentError(
            f"a bound call of {self._name} holds the addresses of its arrays, so that it is neither copied nor "
            f"pickled: bind the arguments again, kernel.bound(...)"
        )

    def __repr__(self) -> str:
        return f"<BoundCall of {self._name}>"
