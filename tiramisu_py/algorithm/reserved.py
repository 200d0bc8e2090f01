"""Which names C, its library, OpenMP, MPI, CUDA and the runtime have: decided here for all names there are.

A name that only the generated source sees (a parameter, an array, an iterator) may be any that is no word of C: the
emitted text calls it otherwise where C has it (`is_taken_inside`). A name that the linker sees is refused
(`obstacle_outside`). What the compiler adds of its own begins with `tm_`, which no name of a user's does.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_WORDS_TEXT = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
typeof_unqual alignas alignof bool constexpr false nullptr static_assert thread_local true and and_eq bitand bitor
catch char8_t char16_t char32_t class co_await co_return co_yield compl concept const_cast consteval constinit
decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq operator or or_eq
private protected public reinterpret_cast requires static_cast template this throw try typeid typename using virtual
wchar_t xor xor_eq
"""
_CUDA_WORDS_TEXT = """
threadIdx blockIdx blockDim gridDim warpSize dim3 half assert rsqrt rsqrtf float2 float4 double2 int2 int4
"""
_USED_TEXT = """
NULL NAN INFINITY EOF BUFSIZ main errno stdin stdout stderr linux unix i386 I min max abort abs acos acosf acosh
acoshf aligned_alloc asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf calloc cbrt cbrtf ceil ceilf
copysign copysignf cos cosf cosh coshf erf erff exp exp2 exp2f expf expm1 expm1f fabs fabsf floor floorf fmod fmodf
free hypot hypotf isfinite isinf isnan log log10 log10f log1p log1pf log2 log2f logf madvise malloc memcpy memset pow
powf printf rint rintf sin sinf sinh sinhf snprintf sqrt sqrtf strncmp tan tanf tanh tanhf trunc truncf va_start
va_end vsnprintf
"""
_HEADERS_TEXT = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype alloca
dirent dlfcn endian features fcntl malloc numa omp pthread sched semaphore strings ucontext unistd arm_neon cpuid cuda
cuda_runtime immintrin mpi nvrtc x86intrin xmmintrin emmintrin pmmintrin tmmintrin smmintrin nmmintrin
"""
#: Words of C11 and C23, of GNU C, and of C++20, which reads the headers, and in which kernels are written.
WORDS = frozenset(_WORDS_TEXT.split())
#: What kernels use of CUDA.
CUDA_WORDS = frozenset(_CUDA_WORDS_TEXT.split())
#: What generated code itself uses of C's library, of headers that it may include, or of a compiler.
USED = frozenset(_USED_TEXT.split())
#: Families of macros, too many to list.
_MACRO = re.compile(
    r"(PRI|SCN)[A-Zdiouxc]+\d*|(SYS|MADV|PTHREAD|RTLD|CLONE|FP|M|PRI|SCN|HUGE|SIZE|RAND|EXIT|FLT\d*X?|DBL|LDBL|DEC\d*)_\w+"
    r"|U?INT(8|16|32|64|MAX|PTR|_LEAST|_FAST)\w*"
)
#: Types of numbers and of vectors, such as float32x8.
_TYPE = re.compile(r"(u?int|b?float)\d+(_t|x\d+\w*)")
_PREFIX = re.compile(r"tm_|TM_|_|load_|omp_|MPI_|PMPI_|ompi_|OMPI_")
#: What the libraries export that a function may be linked with.
_LINKED = re.compile(
    r"(tm|TM|omp|ompt|ompc|ompd|GOMP|GOACC|kmp|kmpc|MPI|PMPI|MPIX|MPIO|MPICH|MPIR|OMPI|ompi|OPAL|opal|orte|mca|PMIx"
    r"|pmix|ROMIO|pthread|GLIBC)_\w*|_\w*|cu(da)?[A-Z]\w*|nvrtc[A-Z]\w*"
)
#: Headers that generated sources, or a program that uses them, include: a function's own header has its name.
_HEADERS = frozenset(_HEADERS_TEXT.split())
#: What a function exports beside itself.
EXPORTED = ("_last_error", "_use_device")
#: What a function's source defines beside itself, called after it.
PARTS = (*EXPORTED, "_program", "_log", "_error", "_fail", "_check", "_end", "_first_device", "_images", "_memory")
#: What a function's source calls its own variables: a function that it calls cannot be hidden by one.
OWN = frozenset(("wrong", "gpu", "mpi", "comm", "idle", "ranks", "unfit", "local"))
#: File names have up to 255 bytes, and a function's files have its name.
LONGEST = 200


def is_word(name: str) -> bool:
    """Whether a name means something in C or C++ itself."""
    return name in WORDS


def is_macro(name: str) -> bool:
    """Whether a header that generated sources include may define a name as a macro."""
    return name in _library()["macros"] or _MACRO.fullmatch(name) is not None


def is_taken_inside(name: str) -> bool:
    """Whether a generated function cannot use a name for something of its own."""
    return name in WORDS or name in USED or has_own_form(name) or is_macro(name) or _is_declared(name)


def has_own_form(name: str) -> bool:
    """Whether a name is formed as those of the runtime, of types and of macros are, so that nothing may follow it."""
    return _PREFIX.match(name) is not None or _TYPE.fullmatch(name) is not None or _MACRO.fullmatch(name) is not None


def _is_declared(name: str) -> bool:
    """Whether a header declares a type or a constant of this name."""
    return name in _library()["types"] or name in _library()["constants"]


def in_library(name: str) -> bool:
    """Whether a library that generated code may be linked with has a function or a variable of this name."""
    return name in _library()["functions"] or _LINKED.fullmatch(name) is not None


def obstacle_outside(name: str) -> str:
    """Why the linker, or a header, cannot know a function by a name; empty if it can."""
    if is_word(name) or name in ("main", "std"):
        return "C or C++ has it already"
    if is_macro(name) or _is_declared(name) or _TYPE.fullmatch(name):
        return "a header of C has it already"
    if in_library(name) or name in USED:
        return "a library that programs are linked with has a function of this name"
    if name in _HEADERS:
        return f"its header would be {name}.h, which is another one"
    if name.endswith(EXPORTED):
        return f"names in {', '.join(EXPORTED)} are given to what a function exports beside itself"
    for made in (name + part for part in PARTS):
        if is_macro(made) or in_library(made) or made in USED:
            return f"its source would define {made}, which C's library has already"
    if len(name) > LONGEST:
        return f"its files would have this name of {len(name)} letters; take at most {LONGEST}"
    return ""


@cache
def _library() -> dict[str, frozenset[str]]:
    """The names of C's library, by kind: a file says them."""
    text = resources.files("tiramisu_py.algorithm").joinpath("library_names.txt").read_text(encoding="ascii")
    kinds = re.split(r"^\[(\w+)\]$", re.sub(r"^#.*$", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    return {kind: frozenset(names.split()) for kind, names in zip(kinds[::2], kinds[1::2], strict=True)}
