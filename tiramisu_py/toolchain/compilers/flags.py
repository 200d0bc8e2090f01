"""Compiler flags: strict floating point, except for relaxations that the user names. The tests enable warnings."""

from __future__ import annotations

from collections.abc import Collection

from tiramisu_py.backends.c import REQUIRED
from tiramisu_py.errors import ToolchainError

#: The flags on which the semantics of generated code depends; an exported Makefile always passes them.
STRICT = (*REQUIRED, "-fPIC")
OPTIMISED = ("-O3",)
#: At -O3, gcc 12 moves statements of an unrolled loop to a loop of their own, though later iterations read what they
#: store (``p[i + 1] = ..; r[i] = p[i - 1]``, in steps of 2): the values are wrong. Only gcc knows the flag.
GCC_TOGETHER = ("-fno-tree-loop-distribution",)
#: A user's ``select(p[i] > p[i], ...)``, or a newer compiler, may warn about right code: no kernel fails for that.
WARNINGS = ("-w",)
#: Clang accepts one list of flags for compiling and linking, as gcc does, only with this flag.
CLANG_WARNINGS = ("-Wno-unused-command-line-argument",)

#: The names in `fast=`, and the compiler flags of each.
FAST = {
    "contract": ("-ffp-contract=fast",),
    "reassociate": ("-fassociative-math", "-fno-signed-zeros"),
    "reciprocal": ("-freciprocal-math",),
}
SANITIZE = {
    "address": ("-fsanitize=address",),
    "undefined": ("-fsanitize=undefined", "-fno-sanitize-recover=undefined"),
}


def width_flag(vector_bytes: int) -> tuple[str, ...]:
    """The flag that makes an x86 compiler use whole vectors of this size, as in the sources.

    For some processors, compilers prefer narrower vectors (gcc 256 bits for all Intel processors with AVX-512, 128 for
    the first Zen): each operation is then split in halves, which are joined through memory. Vectors of 16 bytes are
    never split, and need no flag.
    """
    return (f"-mprefer-vector-width={8 * vector_bytes}",) if vector_bytes > 16 else ()


def fast_flags(fast: Collection[str]) -> tuple[str, ...]:
    """The flags of `fast`, a subset of contract, reassociate and reciprocal; raises `ToolchainError` for others."""
    return _chosen("fast", fast, FAST)


def sanitize_flags(sanitize: Collection[str]) -> tuple[str, ...]:
    """The flags of `sanitize`, a subset of address and undefined; raises `ToolchainError` for others."""
    chosen = _chosen("sanitize", sanitize, SANITIZE)
    return (*chosen, "-g", "-fno-omit-frame-pointer") if chosen else ()


def _chosen(option: str, names: Collection[str], known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ToolchainError(f'{option}={names!r} is a text; give a tuple of names, such as {option}=("{names}",)')
    if not isinstance(names, Collection):
        raise ToolchainError(f"{option}={names!r}: give a tuple of names, of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise ToolchainError(f"{option} has no {name!r}; choose among {', '.join(known)}")
    return tuple(flag for name in known if name in names for flag in known[name])
