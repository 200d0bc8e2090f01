"""The processor that tests are for: this machine's, or a part of it that stands for it, and what it can run."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Sequence
from itertools import pairwise
from unittest import mock

import pytest

import tiramisu_py as tm
from tiramisu_py.errors import ToolchainError
from tiramisu_py.toolchain import find_toolchain, open_cache, processor_for
from tiramisu_py.toolchain.compilers.c_compiler import Toolchain
from tiramisu_py.toolchain.compilers.processor import (
    VARIABLE,
    host_name,
    instruction_sets,
    lacking,
    resolve_processor,
    used_by_compilers,
)

#: The name of this machine's own processor among those that may stand for it.
OWN = "native"
#: In the flags of tests, the processor that stands for this machine's.
NATIVE = "-march=native"
#: How the reasons begin for which a test is skipped that needs more than the processor has.
LACKS = lacking(["_"]).partition("_")[0]
#: How flags begin that choose no processor.
_OTHERS = ("-D", "-I", "-O", "-U", "-W", "-f", "-g", "-l", "-s", "-w")
#: What follows this flag is for the compiler proper of clang, whatever it looks like.
_GIVEN = "-Xclang"


def become(name: str) -> None:
    """Lets the least of a processor and this machine's be the host, in this process and those that it starts.

    `OWN` is this machine's. Raises `pytest.UsageError` for a name that the compiler does not know.
    """
    os.environ.pop(VARIABLE, None)
    if name == OWN:
        return
    try:
        more = processor_for(name).obstacle
    except ToolchainError as error:
        raise pytest.UsageError(f"--processor={name}: {error}") from error
    if not more:
        os.environ[VARIABLE] = name


def described() -> str:
    """The host, as a run says what it is for."""
    try:
        host = processor_for()
    except ToolchainError as error:
        return str(error).splitlines()[0]
    words = f"{host.name}, vectors of {host.vector_bytes} bytes"
    return f"{words} ({VARIABLE})" if host_name() else words


def of_the_machine() -> frozenset[str]:
    """The features of this machine's own processor, whatever stands for it."""
    with mock.patch.dict(os.environ):
        os.environ.pop(VARIABLE, None)
        return frozenset(tm.target().features)


def native(flags: Sequence[str], compiler: str | None = None) -> tuple[str, ...]:
    """Flags in which the host's own take the place of ``-march=native``."""
    own = _host_flags(compiler, host_name()) if NATIVE in flags else ()
    return tuple(word for flag in flags for word in (own if flag == NATIVE else (flag,)))


def obstacle(flags: Sequence[str], compiler: str | None = None) -> str:
    """The reason why the host cannot run what is compiled under these flags; empty if it can."""
    own = tuple(flag for before, flag in pairwise(["", *flags]) if before == _GIVEN or not flag.startswith(_OTHERS))
    return _obstacle(own, compiler, host_name())


def require(flags: Sequence[str], compiler: str | None = None) -> None:
    """Skips the test if the host cannot run what is compiled under these flags."""
    reason = obstacle(flags, compiler)
    if reason:
        pytest.skip(reason)


def require_target(name: str, compiler: str | None = None) -> None:
    """Skips the test if the host cannot run code for a processor, or the compiler here is for no such ones."""
    toolchain(compiler)
    try:
        reason = processor_for(name, compiler).obstacle
    except ToolchainError as error:
        reason = f"this compiler is for other processors: {error}"
    if reason:
        pytest.skip(reason)


def counted(reasons: Collection[str]) -> list[str]:
    """How many tests were skipped for each lack of the processor, as lines of a run's summary."""
    found = {reason: 0 for reason in reasons if LACKS in reason}
    for reason in reasons:
        if reason in found:
            found[reason] += 1
    return [f"{count} skipped: {reason[reason.index(LACKS) :]}" for reason, count in found.items()]


@functools.cache
def toolchain(compiler: str | None) -> Toolchain:
    """The compiler of this name."""
    return find_toolchain(open_cache(), compiler)


@functools.cache
def _host_flags(compiler: str | None, _host: str | None) -> tuple[str, ...]:
    return resolve_processor(open_cache(), toolchain(compiler)).flags


@functools.cache
def _obstacle(flags: tuple[str, ...], compiler: str | None, host: str | None) -> str:
    cache, found = open_cache(), toolchain(compiler)
    needed = instruction_sets(cache, found, native(flags, compiler))
    own = instruction_sets(cache, found, _host_flags(compiler, host))
    return lacking(sorted(used_by_compilers(needed - own)), host or "")
