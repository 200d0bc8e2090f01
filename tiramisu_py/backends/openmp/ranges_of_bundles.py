"""Bundles of parallel loops in C: each range of consecutive iterations walks the nest of loops.

::

    for (tm_part = 0; tm_part < tm_parts; tm_part++) {     dealt out to the threads
      int64_t tm_at = ...; const int64_t tm_end = ...;     a range of iterations, by number
      int64_t tm_x_first = tm_at/K%M, ..;                  its first one: the only divisions
      for (h = tm_h_first; tm_at < tm_end; h++) {
        for (x = tm_x_first; x < M && tm_at < tm_end; x++) {
          const int64_t tm_stop = ..;                      the end of its row, or of the range
          for (y = tm_y_first; y < tm_stop; y++) { .. }
          tm_at += tm_stop - tm_y_first, tm_y_first = 0;
        }
        tm_x_first = 0;
      }
    }

Without a chunk, each thread has one range, all as long as each other but for one iteration. The number of iterations
fits 64 bits: the function has tested that.
"""

from __future__ import annotations

from collections.abc import Sequence

import cgen

from tiramisu_py.backends.c.expressions.parentheses import OR, SUM, Code, infix
from tiramisu_py.backends.c.expressions.scalars import Scalars
from tiramisu_py.backends.c.expressions.scope import Scope
from tiramisu_py.ir import For, Private
from tiramisu_py.program.loops import Parallel
from tiramisu_py.records import dataclass


def reductions(chain: Sequence[For]) -> list[Private]:
    """The buffers that the loops of a bundle combine, each once: what is true of one of them is true of the range."""
    found = {private.buffer: private for loop in reversed(chain) for private in loop.reductions}
    return list(found.values())


@dataclass(frozen=True, eq=False)
class RangeOfBundle:
    """The loops of a bundle, outermost first, as a walk over ranges; `scopes` is the scope of each loop's bounds."""

    chain: Sequence[For]
    scopes: Sequence[Scope]

    @property
    def tag(self) -> Parallel:
        """How ranges are dealt out."""
        tag = self.chain[0].tag
        assert isinstance(tag, Parallel)
        return tag

    def declarations(self) -> list[cgen.Generable]:
        """The numbers of iterations of each loop, of all, and of ranges."""
        lines: list[cgen.Generable] = []
        for name, lower, upper in zip(self._extents, self._lowers, self._uppers, strict=True):
            lines.append(_constant(name, upper.text if lower.text == "0" else infix("-", upper, lower).text))
        some = " && ".join(f"{name} > 0" for name in self._extents)
        lines.append(_constant("tm_total", f"{some} ? {'*'.join(self._extents)} : 0"))
        chunk = self.tag.chunk
        parts = "tm_total > 0 ? tm_team() : 0" if chunk is None else f"(tm_total + {chunk - 1})/{chunk}"
        return [*lines, _constant("tm_parts", parts)]

    def loop(self, body: cgen.Generable) -> cgen.For:
        """The loop over ranges, which is dealt out."""
        nest = self._nest(0, body)
        header = (cgen.Line("int64_t tm_part = 0"), cgen.Line("tm_part < tm_parts"), cgen.Line("tm_part++"))
        return cgen.For(*header, cgen.Block([*self._ends(), *self._firsts(), nest]))

    @property
    def schedule(self) -> str:
        """The clause that deals the ranges out."""
        return f" schedule({self.tag.schedule}{'' if self.tag.chunk is None else ', 1'})"

    # -- one range

    def _ends(self) -> list[cgen.Generable]:
        if self.tag.chunk is not None:
            chunk = self.tag.chunk
            first, last = f"tm_part*{chunk}", f"tm_total - tm_at > {chunk} ? tm_at + {chunk} : tm_total"
        else:
            rest = "(tm_part < tm_total%tm_parts ? tm_part : tm_total%tm_parts)"
            first = f"tm_total/tm_parts*tm_part + {rest}"
            last = "tm_at + tm_total/tm_parts + (tm_part < tm_total%tm_parts)"
        return [cgen.Statement(f"int64_t tm_at = {first}"), _constant("tm_end", last)]

    def _firsts(self) -> list[cgen.Generable]:
        """The first iteration of each loop in the range."""
        lines: list[cgen.Generable] = []
        for depth, first in enumerate(self._first):
            quotient = "/".join(["tm_at", *reversed(self._extents[depth + 1 :])])
            part = quotient if depth == 0 else f"{quotient}%{self._extents[depth]}"
            lower = self._lowers[depth]
            value = part if lower.text == "0" else f"{lower.at(SUM)} + {part}"
            lines.append(cgen.Statement(f"int64_t {first} = {value}"))
        return lines

    def _nest(self, depth: int, body: cgen.Generable) -> cgen.For:
        name, first, upper = self._variables[depth], self._first[depth], self._uppers[depth]
        step = cgen.Line(f"{name}++")
        if depth == len(self.chain) - 1:
            return cgen.For(cgen.Line(f"int64_t {name} = {first}"), cgen.Line(f"{name} < tm_stop"), step, body)
        inside: list[cgen.Generable] = [self._nest(depth + 1, body)]
        inner = self._first[depth + 1]
        if depth == len(self.chain) - 2:
            end = self._uppers[-1]
            left = f"{end.at(SUM)} - {inner} < tm_end - tm_at"
            inside.insert(0, _constant("tm_stop", f"{left} ? {end.at(OR)} : {inner} + (tm_end - tm_at)"))
            inside.append(cgen.Statement(f"tm_at += tm_stop - {inner}"))
        inside.append(cgen.Assign(inner, self._lowers[depth + 1].text))
        more = "tm_at < tm_end" if depth == 0 else f"{name} < {upper.at(SUM)} && tm_at < tm_end"
        return cgen.For(cgen.Line(f"int64_t {name} = {first}"), cgen.Line(more), step, cgen.Block(inside))

    # -- names and bounds

    @property
    def _variables(self) -> list[str]:
        return [self.scopes[0].names[loop.variable] for loop in self.chain]

    @property
    def _first(self) -> list[str]:
        return [f"tm_{name}_first" for name in self._variables]

    @property
    def _extents(self) -> list[str]:
        return [f"tm_{name}_extent" for name in self._variables]

    @property
    def _lowers(self) -> list[Code]:
        return [Scalars(scope)(loop.lower) for loop, scope in zip(self.chain, self.scopes, strict=False)]

    @property
    def _uppers(self) -> list[Code]:
        return [Scalars(scope)(loop.upper) for loop, scope in zip(self.chain, self.scopes, strict=False)]


def _constant(name: str, value: str) -> cgen.Generable:
    return cgen.Statement(f"const int64_t {name} = {value}")
