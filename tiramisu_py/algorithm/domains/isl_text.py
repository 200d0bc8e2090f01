"""isl text that a user gives for a domain."""

from __future__ import annotations

import islpy as isl

from tiramisu_py import sets
from tiramisu_py.algorithm.declarations import Algorithm
from tiramisu_py.errors import DeclarationError


def domain_text(algorithm: Algorithm, name: str, text: str) -> isl.Set:
    """The set that isl text denotes, over all parameters of the function; raises `DeclarationError` with the text."""
    whole = f"the domain {text!r} of {name}"
    try:
        read = sets.read_set(algorithm.isl_context, text)
    except sets.IslTextError as error:
        raise DeclarationError(
            f"{whole} is not an isl set of one tuple ({error}); parameters are listed in front, as in "
            f'"[{", ".join(algorithm.params) or "N"}] -> {{ [i] : 0 <= i < 10 }}"'
        ) from None
    if read.is_params():
        raise DeclarationError(f"{whole} has no tuple: write the iterators in brackets before the colon")
    if read.get_space().is_wrapping():
        raise DeclarationError(f"{whole} is a relation; write a plain tuple of iterators")
    _check_params(algorithm, whole, read)
    if sets.tuple_name(read) not in ("", name):
        raise DeclarationError(f"{whole} is in a tuple called {sets.tuple_name(read)}; leave the name out")
    return read.align_params(algorithm.param_space)


def _check_params(algorithm: Algorithm, whole: str, read: isl.Set) -> None:
    unknown = [param for param in sets.params(read) if param not in algorithm.params]
    if unknown:
        raise DeclarationError(
            f"{whole} has the parameter {unknown[0]}; the parameters of {algorithm.name} are "
            f"{', '.join(algorithm.params) or 'none'}"
        )
