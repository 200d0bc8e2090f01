"""Random expressions of every type: arithmetic that is the same on every machine, and that wraps around."""

from __future__ import annotations

import random
from collections.abc import Sequence

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_BOTH = ("{} + {}", "{} + {}", "{} - {}", "tm.minimum({}, {})", "tm.maximum({}, {})", "{} * {}")
_OF_INTEGERS = ("{} & {}", "{} | {}", "{} ^ {}", "tm.cast({t}, tm.absd({}, {}))")
_OF_FLOATS = ("{} / {}", "tm.select(tm.isnan({0}), {1}, {0})", "tm.fmod({}, {})")
_OF_ONE_INTEGER = ("{} // 3", "{} % 5", "{} >> 1", "-{}", "~{}", "tm.absolute({})", "tm.cast({t}, tm.popcount({}))")
_OF_ONE_FLOAT = ("tm.sqrt({})", "tm.floor({})", "tm.trunc({})", "tm.rint({})", "tm.absolute({})", "-{}", "tm.ceil({})")
#: Of what is exact: small whole numbers stay small whole numbers.
_EXACT = ("{} + {}", "{} + {}", "{} - {}", "tm.minimum({}, {})", "tm.maximum({}, {})")

Read = tuple[str, str]


class Formulas:
    """Makes expressions of reads, each a text and its type; floats of `exact` ones are small whole numbers."""

    def __init__(self, choice: random.Random, exact: bool) -> None:
        self.choice = choice
        self.exact = exact

    def expression(self, dtype: str, reads: Sequence[Read], iterators: Sequence[str], kept: str = "") -> str:
        """An expression of a type, of all these reads; `kept` is a read that is joined with the others by one addition
        at most, so that what is repeated does not grow without bound.
        """
        parts = [self._leaf(dtype, read) for read in reads if read[0] != kept]
        if iterators and (not parts or self.choice.random() < 0.25):
            parts.append(self._cast(dtype, self.choice.choice(iterators), "int64"))
        if not parts:
            parts = [self._cast(dtype, "1", "int64")]
        text = parts[0]
        for part in parts[1:]:
            text = self._joined(dtype, text, part)
        if self.choice.random() < 0.25:
            text = self._changed(dtype, text)
        if kept:
            text = f"({kept} ^ {text})" if dtype == "bool" else self._both(dtype, kept, text, self._repeated(dtype))
        return self._cast(dtype, text, "")

    def _repeated(self, dtype: str) -> str:
        """How a recurrence continues."""
        return self.choice.choice(_EXACT if self.exact and dtype in FLOATS else ("{} + {}", "{} + {}", "{} - {}"))

    def condition(self, read: Read) -> str:
        """A condition on a value."""
        text, dtype = read
        if dtype == "bool":
            return text
        return f"{text} {self.choice.choice(('>', '<', '==', '!=', '>='))} {self.choice.choice((0, 0, 1))}"

    def _leaf(self, dtype: str, read: Read) -> str:
        text, own = read
        if dtype == "bool" and own != "bool":
            return f"({self.condition(read)})"
        return text if own == dtype else self._cast(dtype, text, own)

    def _cast(self, dtype: str, text: str, own: str) -> str:
        if dtype == "bool":
            return f"({text} == 1)" if own else text
        if self.exact and dtype in INTEGERS and own in FLOATS and self.choice.random() < 0.5:
            return f"tm.saturating_cast(tm.{dtype}, {text})"
        return f"tm.cast(tm.{dtype}, {text})"

    def _joined(self, dtype: str, a: str, b: str) -> str:
        if dtype == "bool":
            return f"({a} {self.choice.choice('&|^')} {b})"
        forms = (*_BOTH, *(_OF_FLOATS if dtype in FLOATS else _OF_INTEGERS))
        return self._both(dtype, a, b, self.choice.choice(_EXACT if self.exact and dtype in FLOATS else forms))

    def _both(self, dtype: str, a: str, b: str, form: str) -> str:
        text = form.format(a, b, t=f"tm.{dtype}")
        return text if text.startswith("tm.") else f"({text})"

    def _changed(self, dtype: str, text: str) -> str:
        if dtype == "bool":
            return f"(~{text})"
        if dtype in FLOATS:
            forms = ("-{}", "tm.absolute({})", "tm.floor({})") if self.exact else _OF_ONE_FLOAT
        elif dtype.startswith("u"):
            forms = tuple(form for form in _OF_ONE_INTEGER if form not in ("tm.absolute({})", "-{}"))
        else:
            forms = _OF_ONE_INTEGER
        made = self.choice.choice(forms).format(text, t=f"tm.{dtype}")
        return made if made.startswith("tm.") else f"({made})"
