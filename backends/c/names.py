"""Names in C: the user's, unless C, its library or the runtime has the same one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
asm typeof bool true false NULL main errno stdin stdout stderr NAN INFINITY linux unix i386 I
"""
_LIBRARY = """
abs acos acosf acosh acoshf aligned_alloc asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf cbrt
cbrtf ceil ceilf copysign copysignf cos cosf cosh coshf erf erff exp exp2 exp2f expf expm1 expm1f fabs fabsf
floor floorf fmod fmodf free hypot hypotf isfinite isinf isnan log log10 log10f log1p log1pf log2 log2f logf
memcpy pow powf rint rintf sin sinf sinh sinhf snprintf sqrt sqrtf tan tanf tanh tanhf trunc truncf vsnprintf
"""
RESERVED = frozenset(_KEYWORDS.split()) | frozenset(_LIBRARY.split())
#: Macros of the headers that the runtime includes.
_MACRO = re.compile(
    r"U?INT(8|16|32|64|MAX|PTR|_LEAST|_FAST)|(FLT|DBL|LDBL|DEC|FP|M|PRI|SCN|HUGE|SIZE|RAND|EXIT)_|EOF$|BUFSIZ$"
)
_TYPE = re.compile(r"(u?int|b?float)\d+(_t|x\d+.*)$")


def is_reserved(name: str) -> bool:
    """Whether a generated function cannot use a name for something of its own."""
    return name in RESERVED or _is_prefixed(name)


def _is_prefixed(name: str) -> bool:
    """Whether a name begins as those of the runtime, of C's types or of its macros do."""
    own = name.startswith(("tm_", "TM_", "_", "load_", "omp_", "MPI_", "PMPI_", "ompi_"))
    return own or _TYPE.match(name) is not None or _MACRO.match(name) is not None


#: What generated code appends to the name of an array for names of its own.
DERIVED = ("_bytes", "_copies", "_own", "_slot", "_elements")
#: What it appends to the name of the function.
PARTS = ("_last_error", "_error", "_fail", "_check")


def c_names(names: Iterable[str], function: str, reserved: Collection[str] = ()) -> Mapping[str, str]:
    """A C identifier for each name, the name itself where that can be and is not among `reserved`."""
    ordered = list(dict.fromkeys(names))
    used = {function, "wrong", *reserved, *(function + part for part in PARTS)}
    used |= {_identifier(name) + part for name in ordered for part in DERIVED}
    found: dict[str, str] = {}
    for name in sorted(ordered, key=lambda n: (_identifier(n) != n or is_reserved(n), ordered.index(n))):
        candidate = _identifier(name)
        if _is_prefixed(candidate):
            candidate = f"n_{candidate}"
        while candidate in RESERVED or candidate in used:
            candidate += "_"
        used.add(candidate)
        found[name] = candidate
    return found


def _identifier(name: str) -> str:
    text = re.sub(r"[^0-9A-Za-z_]", lambda match: f"u{ord(match.group()):x}", name.replace("@gpu", "_gpu"))
    return f"n{text}" if not text or text[0].isdigit() or text[0] == "_" else text
