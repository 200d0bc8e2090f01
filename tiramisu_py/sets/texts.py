"""The user's isl text: parsed completely, or refused with the part that is left over.

isl itself stops after the first object, and ignores the rest. This is the only module that passes text to isl.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import islpy as isl

from tiramisu_py.sets.frames import dim_names

_Read = TypeVar("_Read", isl.Set, isl.Map)
#: The reserved words of isl text.
ISL_WORDS = (
    "and", "or", "not", "exists", "mod", "implies", "infty", "infinity", "NaN", "floor", "ceil", "ceild", "floord",
    "min", "max", "rat",
)  # fmt: skip
_LITERALS = ("true", "false", "True", "False")
_COMMENT = re.compile(r"#[^\n]*")
_HEAD = re.compile(r"\s*(\[[^\]{]*\]\s*->\s*)?\{")
#: Operators that people write between two sets, and the isl operation for each.
_JOINED = re.compile(r"\s*(-|\+|\*|;|,|\||&|union\b|and\b|or\b|intersect\b|minus\b)\s*(.*)", re.DOTALL)
_MEANING: dict[str, Callable[[isl.Set, isl.Set], isl.Set]] = {
    **dict.fromkeys(("+", ";", ",", "|", "or", "union"), lambda a, b: a.union(b)),
    **dict.fromkeys(("-", "minus"), lambda a, b: a.subtract(b)),
    **dict.fromkeys(("*", "&", "intersect"), lambda a, b: a.intersect(b)),
}
#: Notations that people write, and the isl notation for each.
_INSTEAD = (
    (r"=>|≥", ">="),
    (r"=<|≤", "<="),
)


class IslTextError(ValueError):
    """Text that isl cannot parse as the intended kind of object; the message says why, as the end of a sentence."""


def read_set(context: isl.Context, text: str) -> isl.Set:
    """The set that a whole text denotes; raises `IslTextError`."""
    found = _read(isl.Set.read_from_str, context, text)
    left = left_over(text)
    if left:
        raise IslTextError(f"isl reads one set, and {left!r} is left over{_together(context, found, text, left)}")
    return found


def read_map(context: isl.Context, text: str) -> isl.Map:
    """The map that a whole text denotes; raises `IslTextError`."""
    found = _read(isl.Map.read_from_str, context, text)
    left = left_over(text)
    if left:
        raise IslTextError(f"isl reads one map, and {left!r} is left over; write several pieces as {{ .. ; .. }}")
    return found


def read_condition(context: isl.Context, params: Sequence[str], text: str) -> isl.Set:
    """The parameter values that satisfy the condition that a whole text denotes; raises `IslTextError`."""
    brace = re.search(r"[{}]", _COMMENT.sub(lambda found: " " * len(found.group()), text))
    if brace:
        raise IslTextError(
            f"{text[brace.start() :]!r} is left over: a condition has no braces; join conditions with and, or"
        )
    unknown = [word for word in _words(text) if word not in params]
    if unknown and "exists" not in _words(text, all_of_them=True):
        raise IslTextError(f"{unknown[0]} is no parameter")
    found = _read(isl.Set.read_from_str, context, f"[{', '.join(params)}] -> {{ : {text}\n }}")
    return found.params()


def left_over(text: str) -> str:
    """The rest of a text after the first object, which isl has parsed."""
    plain = _COMMENT.sub(lambda found: " " * len(found.group()), text)
    return plain[plain.find("}") + 1 :].strip()


def _read(read: Callable[[isl.Context, str], _Read], context: isl.Context, text: str) -> _Read:
    try:
        return read(context, text.replace("==", "="))
    except isl.Error as error:
        raise IslTextError(_reason(error) + _hint(text)) from None


def _reason(error: isl.Error) -> str:
    """isl's error message, without the positions in its own sources."""
    found = re.sub(r" in /\S*$", "", str(error).rpartition("failed: ")[2])
    return "it means something else" if "Assertion" in str(error) else found


def _hint(text: str) -> str:
    """Advice for notations that isl does not know."""
    for pattern, right in _INSTEAD:
        found = re.search(pattern, text)
        if found:
            return f"; write {right} for {found.group()}"
    if re.search(r"\d\.\d|\d[eE]\d", text):
        return "; numbers are integers"
    product = re.search(r"[A-Za-z_]\w*\s*\*\s*[A-Za-z_]\w*", text)
    if product or "**" in text:
        return f"; {product.group() if product else '**'} is not affine: multiply by integers only"
    return ""


def _words(text: str, all_of_them: bool = False) -> list[str]:
    found = re.findall(r"(?<![\w'])[A-Za-z_][\w']*", _COMMENT.sub("", text))
    return [word for word in found if all_of_them or word not in (*ISL_WORDS, *_LITERALS)]


def _together(context: isl.Context, first: isl.Set, text: str, left: str) -> str:
    """Advice to write two sets with an operator between them as one set, in isl's notation."""
    joined = _JOINED.fullmatch(left)
    head = _HEAD.match(text)
    if joined is None or head is None or joined.group(1) not in _MEANING:
        return ""
    other = joined.group(2)
    try:
        second = isl.Set.read_from_str(context, other if other.startswith("[") else (head.group(1) or "") + other)
        if left_over(other):
            return "; write one set, with pieces as in { [i] : .. ; [i] : .. }"
        meant = _MEANING[joined.group(1)](first, second).coalesce()
        written = str(meant)
        again = isl.Set.read_from_str(context, written)
    except isl.Error:
        return "; write one set, with pieces as in { [i] : .. ; [i] : .. }"
    same = again.is_equal(meant) and dim_names(again) == dim_names(first)
    return f'; for what this means write "{written}"' if same else ""
