"""Reserved names: those of C, its library, OpenMP, MPI, CUDA and the runtime. All names are checked here.

A name that only the generated source sees (a parameter, an array, an iterator) may be anything but a word of C: the
emitted text renames it if it is taken (`is_taken_inside`). A taken name that the linker sees is refused
(`obstacle_outside`). Names added by the compiler begin with `tm_`, which is refused for the user's names.
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
#: Keywords of C11, C23, GNU C and C++20 (C++ programs include the headers; kernels are CUDA C++).
WORDS = frozenset(_WORDS_TEXT.split())
#: Names of CUDA that kernels use.
CUDA_WORDS = frozenset(_CUDA_WORDS_TEXT.split())
#: Names of the C library, its headers and compilers that generated code itself uses.
USED = frozenset(_USED_TEXT.split())
#: Families of macros, too many to list.
_MACRO = re.compile(
    r"(PRI|SCN)[A-Zdiouxc]+\d*|(SYS|MADV|PTHREAD|RTLD|CLONE|FP|M|PRI|SCN|HUGE|SIZE|RAND|EXIT|FLT\d*X?|DBL|LDBL|DEC\d*)_\w+"
    r"|U?INT(8|16|32|64|MAX|PTR|_LEAST|_FAST)\w*"
)
#: Types of numbers and of vectors, such as float32x8.
_TYPE = re.compile(r"(u?int|b?float)\d+(_t|x\d+\w*)")
_PREFIX = re.compile(r"tm_|TM_|_|load_|omp_|MPI_|PMPI_|ompi_|OMPI_")
#: Symbols exported by the libraries that a function may be linked with.
_LINKED = re.compile(
    r"(tm|TM|omp|ompt|ompc|ompd|GOMP|GOACC|kmp|kmpc|MPI|PMPI|MPIX|MPIO|MPICH|MPIR|OMPI|ompi|OPAL|opal|orte|mca|PMIx"
    r"|pmix|ROMIO|pthread|GLIBC)_\w*|_\w*|cu(da)?[A-Z]\w*|nvrtc[A-Z]\w*"
)
#: Headers that generated sources, or a program that uses them, include: a function's own header has its name.
_HEADERS = frozenset(_HEADERS_TEXT.split())
#: Suffixes of the further symbols that a function exports.
EXPORTED = ("_last_error", "_use_device")
#: Suffixes of the further definitions in a function's source.
PARTS = (
    *EXPORTED, "_program", "_log", "_error", "_fail", "_check", "_end", "_first_device", "_images", "_memory",
    "_version", "_versions", "_number",
)  # fmt: skip
#: Variables of a function's source: they would hide an external function of the same name.
OWN = frozenset(("wrong", "gpu", "mpi", "comm", "idle", "ranks", "unfit", "local"))
#: File names have up to 255 bytes, and a function's files have its name.
LONGEST = 200


def is_word(name: str) -> bool:
    """Whether a name is a keyword of C or C++."""
    return name in WORDS


def is_macro(name: str) -> bool:
    """Whether a header that generated sources include may define a name as a macro."""
    return name in _library()["macros"] or _MACRO.fullmatch(name) is not None


def is_taken_inside(name: str) -> bool:
    """Whether a name is taken inside a generated function, so that it must be renamed."""
    return name in WORDS or name in USED or has_own_form(name) or is_macro(name) or _is_declared(name)


def has_own_form(name: str) -> bool:
    """Whether a name has the form of names of the runtime, of types or of macros, so that it takes no suffix."""
    return _PREFIX.match(name) is not None or _TYPE.fullmatch(name) is not None or _MACRO.fullmatch(name) is not None


def _is_declared(name: str) -> bool:
    """Whether a header declares a type or a constant of this name."""
    return name in _library()["types"] or name in _library()["constants"]


def in_library(name: str) -> bool:
    """Whether a library that generated code may be linked with has a function or a variable of this name."""
    return name in _library()["functions"] or _LINKED.fullmatch(name) is not None


def obstacle_outside(name: str) -> str:
    """Why a name cannot be that of a function visible to the linker and in a header; empty if it can."""
    if is_word(name) or name in ("main", "std"):
        return "C or C++ has it already"
    if is_macro(name) or _is_declared(name) or _TYPE.fullmatch(name):
        return "a header of C has it already"
    if in_library(name) or name in USED:
        return "a library that programs are linked with has a function of this name"
    if name in _HEADERS:
        return f"its header would be {name}.h, which exists already"
    if name.endswith(EXPORTED):
        return f"names that end in {', '.join(EXPORTED)} are reserved for the further symbols that a function exports"
    for made in (name + part for part in PARTS):
        if is_macro(made) or in_library(made) or made in USED:
            return f"its source would define {made}, which C's library has already"
    if len(name) > LONGEST:
        return f"its files would have this name of {len(name)} letters; take at most {LONGEST}"
    return ""


@cache
def _library() -> dict[str, frozenset[str]]:
    """The names of the C library, by kind, read from a file."""
    text = resources.files("tiramisu_py.algorithm").joinpath("library_names.txt").read_text(encoding="ascii")
    kinds = re.split(r"^\[(\w+)\]$", re.sub(r"^#.*$", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    return {kind: frozenset(names.split()) for kind, names in zip(kinds[::2], kinds[1::2], strict=True)}
