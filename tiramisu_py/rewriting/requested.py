"""Requests for a derivative: the inputs, checked by name, and the outputs that have one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.algorithm.expressions import Access, Param
from tiramisu_py.errors import DeclarationError
from tiramisu_py.rewriting.activity import components


def requested(algorithm: Algorithm, wrt: Any) -> tuple[str, ...]:
    """The names of the inputs for which derivatives are asked; all floating-point ones if nothing is said.

    Raises `DeclarationError` for anything that has no derivative.
    """
    _check_outputs(algorithm)
    known = [name for name, each in algorithm.inputs.items() if each.dtype.is_float]
    if wrt is None:
        if not known:
            raise DeclarationError(
                f"{algorithm.name} has no floating-point input: {_listed(algorithm)}; derivatives are by floats"
            )
        return tuple(known)
    if isinstance(wrt, str) or not isinstance(wrt, Sequence):
        raise DeclarationError(f"wrt={wrt!r}: give a list of inputs of {algorithm.name}, such as [{_such(known)}]")
    if not wrt:
        raise DeclarationError(f"wrt=[] names no input of {algorithm.name}: it has {', '.join(known)}")
    found = [_one(algorithm, each, known) for each in wrt]
    for name in found:
        if found.count(name) > 1:
            raise DeclarationError(f"wrt= names {name} twice")
    return tuple(found)


def _one(algorithm: Algorithm, given: Any, known: Sequence[str]) -> str:
    owner = getattr(getattr(given, "_function", None), "owner", None) or getattr(given, "owner", None)
    name = _name_of(given)
    if name is None:
        raise DeclarationError(f"wrt= has {given!r}, which is no input of {algorithm.name}: give handles or names")
    if owner is not None and owner is not algorithm.owner:
        raise DeclarationError(
            f"wrt= has {name}, which belongs to another function than {algorithm.name}: give its own inputs, or names"
        )
    if isinstance(given, Param) or name in algorithm.params:
        raise DeclarationError(
            f"{name} is a parameter of {algorithm.name}, a size, and has no derivative: give inputs, {_such(known)}"
        )
    if name in algorithm.computations:
        raise DeclarationError(
            f"{name} is a computation of {algorithm.name}, and wrt= takes inputs: {_such(known)}; declare {name} as an "
            "input of another function to have the derivative by it"
        )
    if name not in algorithm.inputs:
        raise DeclarationError(f"wrt= has {name}, and {algorithm.name} has no such input: it has {_such(known)}")
    declared = algorithm.inputs[name]
    if not declared.dtype.is_float:
        raise DeclarationError(
            f"{name} is {declared.dtype}, and only floating-point inputs have derivatives: {_such(known)}"
        )
    return name


def _name_of(given: Any) -> str | None:
    if isinstance(given, str):
        return given
    if isinstance(given, Access):
        return given.source
    name = getattr(given, "name", None)
    return name if isinstance(name, str) else None


def _such(known: Sequence[str]) -> str:
    return ", ".join(known) or "none of which is a float"


def _listed(algorithm: Algorithm) -> str:
    return ", ".join(f"{name} is {each.dtype}" for name, each in algorithm.inputs.items()) or "it has no input"


def _check_outputs(algorithm: Algorithm) -> None:
    if not algorithm.outputs:
        raise DeclarationError(f"{algorithm.name} has no outputs: call {algorithm.name}.outputs(...) first")
    types = {name: algorithm.computations[name].dtype for name in algorithm.outputs}
    if not any(components(algorithm.computations[name]) for name in algorithm.outputs):
        named = ", ".join(f"{name} is {dtype}" for name, dtype in types.items())
        raise DeclarationError(
            f"no output of {algorithm.name} has floating-point values to differentiate: {named}; return what it is "
            "made of, before it is converted"
        )


def the_one_value(algorithm: Algorithm) -> str:
    """The output of a function of one value; raises `DeclarationError` if there are others."""
    _check_outputs(algorithm)
    if len(algorithm.outputs) > 1:
        raise DeclarationError(
            f"tm.grad is of one value, and {algorithm.name} returns {', '.join(algorithm.outputs)}: use tm.vjp, or "
            "return one of them"
        )
    (name,) = algorithm.outputs
    c = algorithm.computations[name]
    if c.iterators or len(components(c)) != 1:
        dims = ", ".join(c.iterators)
        raise DeclarationError(
            f"tm.grad is of one value, and {name}[{dims}] of {algorithm.name} has many: use tm.vjp, whose d_{name} "
            "weighs them, or return their sum"
        )
    return name


def gpu_of(algorithm: Algorithm, wrt: Sequence[str]) -> int | None:
    """The GPU that has all arrays among the inputs `wrt`, in whose memory weights of outputs are, too; or None."""
    devices = {each.device for name in wrt if not (each := algorithm.inputs[name]).scalar}
    return devices.pop() if len(devices) == 1 else None
