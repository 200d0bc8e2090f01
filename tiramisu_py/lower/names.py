"""Names of loop variables: the user's, made unique within each nest."""

from __future__ import annotations

from collections.abc import Iterable

from tiramisu_py.algorithm.expressions import Call, Expr, Iter, Param
from tiramisu_py.algorithm.traversal import walk
from tiramisu_py.algorithm.types import int64
from tiramisu_py.program.loops import LoopId
from tiramisu_py.program.program import Program

#: What C, its standard headers and the generated source itself use.
_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    _Bool _Complex _Imaginary _Alignas _Alignof _Atomic _Generic _Noreturn _Static_assert _Thread_local
    asm typeof bool true false NULL INFINITY NAN main errno stdin stdout stderr
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ptrdiff_t intptr_t uintptr_t
    malloc calloc free abort memcpy memset snprintf abs min max pow exp log sqrt sin cos tan floor ceil rint trunc
    linux unix I
"""
RESERVED = frozenset(_WORDS.split())

#: What CUDA C++, in which kernels are written, uses beside that.
_KERNEL_WORDS = """
    and and_eq asm bitand bitor bool catch char16_t char32_t class compl constexpr const_cast decltype delete
    dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public reinterpret_cast static_assert static_cast template this thread_local throw true try
    typeid typename using virtual wchar_t xor xor_eq
    threadIdx blockIdx blockDim gridDim warpSize dim3 float2 float4 double2 int2 int4 half
"""
KERNEL_RESERVED = frozenset(_KERNEL_WORDS.split())


def unique(name: str, taken: Iterable[str]) -> str:
    """`name`, with a number after it where it is taken."""
    used = set(taken)
    candidate, number = name, 1
    while candidate in used:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def reserved_names(program: Program) -> frozenset[str]:
    """The names that no loop variable of a program may have."""
    algorithm = program.algorithm
    calls = (
        node.function
        for statement in program.statements.values()
        for root in (statement.body, *statement.guards)
        for node in walk(root)
        if isinstance(node, Call)
    )
    declared = {algorithm.name, *algorithm.params, *algorithm.inputs, *program.buffers}
    words = RESERVED | KERNEL_RESERVED if any(loop.is_gpu for loop in program.loops.values()) else RESERVED
    return frozenset({*words, *declared, *calls})


def loop_value(program: Program, loop: LoopId, variable: str) -> Expr:
    """The value of a loop's variable; of a loop over ranks, the parameter that is this rank's coordinate."""
    return Param(variable, int64) if program.loops[loop].is_rank else Iter(variable, int64)


def loop_variables(program: Program, reserved: frozenset[str]) -> dict[LoopId, str]:
    """The variable of each loop: the loop's name, unlike those around it and those reserved."""
    found: dict[LoopId, str] = {}
    for statement in program.statements.values():
        outer: list[str] = []
        for loop in statement.loops:
            if loop not in found:
                found[loop] = unique(program.loops[loop].name, reserved.union(outer))
            outer.append(found[loop])
    return found
