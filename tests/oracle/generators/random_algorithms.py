"""Random small algorithms in one and two dimensions: pipelines, stencils, selects, recurrences, reductions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.oracle.generators.script import Script

PARAMS = ("N", "M")
ITERATORS = ("i", "j")
COMMON_TYPES = ("int32", "int64", "float32", "float64")
OTHER_TYPES = ("int8", "uint8", "int16", "uint16", "uint32", "uint64", "float16", "bfloat16")
#: Names for the loops that commands make, and for those of copies.
NEW_LOOPS = tuple(f"x{n}" for n in range(12))
NEW_COPY = ("y0", "y1")


@dataclass(frozen=True)
class Source:
    """An input or a computation: for each dimension d, indices from low[d] to PARAMS[d] + more[d] - 1."""

    name: str
    low: tuple[int, ...]
    more: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.low)


@dataclass(frozen=True)
class Read:
    """One access: its text, and the box of points at which it lies inside its source."""

    text: str
    low: tuple[int, ...]
    more: tuple[int, ...]


class Algorithms:
    """Writes a random algorithm into a script."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice
        self.script = Script()
        self.sources: list[Source] = []
        self.dtype = choice.choice(COMMON_TYPES if choice.random() < 0.8 else OTHER_TYPES)
        self.rank = choice.choice((1, 1, 2))

    def written(self) -> Script:
        """A script with one to two inputs and one to four computations."""
        least = [f"{name} >= {self.choice.choice((0, 0, 1, 2))}" for name in PARAMS[: self.rank]]
        self.script.do(f"{', '.join(PARAMS[: self.rank])}, = tm.params('{' '.join(PARAMS[: self.rank])}')")
        self.script.do("i, j, k, i0, i1, j0, j1, wave = tm.iters('i j k i0 i1 j0 j1 wave')")
        self.script.do(f"{', '.join(NEW_LOOPS)} = tm.iters('{' '.join(NEW_LOOPS)}')")
        self.script.do("u, v, w = tm.iters('u v w')")
        self.script.do(f"{', '.join(NEW_COPY)} = tm.iters('{' '.join(NEW_COPY)}')")
        self.script.do(
            f"f = tm.Function('f', params=[{', '.join(PARAMS[: self.rank])}], assume='{' and '.join(least)}')"
        )
        for name in ("a", "b")[: self.choice.choice((1, 1, 2))]:
            self._input(name)
        count = self.choice.choice((1, 2, 2, 3, 3, 4))
        for name in "pqrs"[:count]:
            self._computation(name)
        self._outputs(count)
        self.script.declared()
        return self.script

    def _input(self, name: str) -> None:
        rank = self.choice.randint(1, self.rank)
        more = tuple(self.choice.choice((0, 1, 2)) for _ in range(rank))
        extents = ", ".join(f"{PARAMS[d]} + {more[d]}" for d in range(rank))
        self.script.do(f"{name} = f.input('{name}', tm.{self.dtype}, [{extents}])")
        self.sources.append(Source(name, (0,) * rank, more))

    def _outputs(self, count: int) -> None:
        names = ["pqrs"[count - 1]] + [n for n in "pqrs"[: count - 1] if self.choice.random() < 0.15]
        last = self.sources[-1]
        if last.name == names[0] and last.rank == 2 and self.choice.random() < 0.1:
            names[0] = f"{last.name}[{last.low[0]}, j]"
        self.script.do(f"f.outputs({', '.join(names)})")

    def _computation(self, name: str) -> None:
        kind = self.choice.choice(("map", "map", "map", "select", "recurrence", "reduction"))
        rank = self.choice.randint(1, self.rank)
        getattr(self, f"_{kind}")(name, rank)

    # -- reads

    def _read(self, rank: int, last: bool = False) -> Read:
        """An access to a source of at most this rank; the box has `rank` dimensions."""
        fitting = [source for source in self.sources if source.rank <= rank] or self.sources[:1]
        source = fitting[-1] if last else self.choice.choice(fitting)
        low, more = [-9] * rank, [9] * rank
        indices = []
        for d in range(source.rank):
            if d >= rank:
                indices.append("0")
                continue
            text, low[d], more[d] = self._index(d, source)
            indices.append(text)
        return Read(f"{source.name}[{', '.join(indices)}]", tuple(low), tuple(more))

    def _index(self, d: int, source: Source) -> tuple[str, int, int]:
        """An index into dimension d, and the interval of the iterator in which it lies inside."""
        iterator, low, more = ITERATORS[d], source.low[d], source.more[d]
        form = self.choice.random()
        if form < 0.04 and d == 0 and low == 0 and more >= 1:
            return f"{self._gathering()}[i]", 0, 2
        if form < 0.10:
            return f"{PARAMS[d]} - 1 - {iterator}", -more, -low
        if form < 0.14 and low >= 0:
            return f"{iterator} // 2", 2 * low, more
        if form < 0.18:
            end = f"{PARAMS[d]} + {more}"
            beyond = f"{iterator} + {self.choice.choice((-2, -1, 1, 2))}"
            clipped = f"tm.clip({beyond}, {low}, {end} - 1)"
            return (clipped if low or self.choice.random() < 0.6 else f"({beyond}) % ({end})"), low, more
        offset = self.choice.choice((-1, 0, 0, 1))
        return f"{iterator} + {offset}" if offset else iterator, low - offset, more - offset

    def _gathering(self) -> str:
        """An input of indices from 0 to N."""
        if "at" not in self.script.names:
            self.script.do("at = f.input('at', tm.int32, [N + 2], values=(0, N + 1))")
        return "at"

    def _box(self, rank: int, reads: Sequence[Read]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The points at which all reads are inside, from 0 at least; now and then one too many."""
        low = [max(0, *(read.low[d] for read in reads), 0) for d in range(rank)]
        more = [min(2, *(read.more[d] for read in reads), 2) for d in range(rank)]
        if self.choice.random() < 0.01:
            more[0] += 1
        return tuple(low), tuple(more)

    def _dims(self, low: Sequence[int], more: Sequence[int]) -> str:
        return ", ".join(
            f"{ITERATORS[d]}: ({low[d]}, {PARAMS[d]} + {more[d]})"
            if low[d] or more[d]
            else f"{ITERATORS[d]}: {PARAMS[d]}"
            for d in range(len(low))
        )

    def _joined(self, terms: Sequence[str]) -> str:
        text = terms[0]
        for term in terms[1:]:
            form = self.choice.choice(("{} + {}", "{} - {}", "tm.min({}, {})", "tm.max({}, {})", "2 * ({}) + {}"))
            text = form.format(text, term)
        return text

    # -- kinds of computations

    def _declare(self, name: str, low: tuple[int, ...], more: tuple[int, ...], expr: str) -> None:
        where = ""
        if self.choice.random() < 0.05:
            where = ", where=" + self.choice.choice(("i % 2 == 0", "i != 1", "(i > 1) | (i == 0)"))
        self.script.do(f"{name} = f.computation('{name}', {{{self._dims(low, more)}}}, {expr}{where})")
        if not where:
            self.sources.append(Source(name, low, more))

    def _map(self, name: str, rank: int) -> None:
        reads = [self._read(rank, last=n == 0) for n in range(self.choice.choice((1, 2, 2, 3)))]
        self._declare(name, *self._box(rank, reads), self._joined([read.text for read in reads]))

    def _select(self, name: str, rank: int) -> None:
        reads = [self._read(rank, last=n == 0) for n in range(2)]
        low, more = self._box(rank, reads)
        x, y = reads[0].text, reads[1].text
        condition = self.choice.choice(("i % 2 == 0", "i > 0", "i < N - 1", f"{x} > {y}", "(i == 0) | (i == 1)"))
        self._declare(name, low, more, f"tm.select({condition}, {x}, {y})")

    def _recurrence(self, name: str, rank: int) -> None:
        read = self._read(rank, last=True)
        low, more = self._box(rank, [read])
        if rank == 1:
            step = self.choice.choice((1, 1, 2))
            before, first = f"{name}[i - {step}]", f"i < {low[0] + step}"
        else:
            before = self.choice.choice(("[i - 1, j]", "[i, j - 1]", "[i - 1, j - 1]", "[i - 1, j + 1]"))
            edges = [f"(i == {low[0]})"] if "i - 1" in before else []
            edges += [f"(j == {low[1]})"] if "j - 1" in before else []
            edges += [f"(j == M + {more[1]} - 1)"] if "j + 1" in before else []
            before, first = name + before, " | ".join(edges)
        self._declare(name, low, more, f"lambda {name}: tm.select({first}, {read.text}, {before} + {read.text})")

    def _reduction(self, name: str, rank: int) -> None:
        read = self._read(rank)
        low, more = self._box(rank, [read])
        over = self.choice.choice(("k: 3", "k: N", "k: (0, i + 1)"))
        terms = [read.text, "k", "2 * k"]
        fitting = [s for s in self.sources if s.rank == 1 and s.low[0] == 0 and s.more[0] >= 0]
        if over == "k: N" and fitting:
            terms.append(f"{self.choice.choice(fitting).name}[k]")
        square = [s.name for s in self.sources if s.rank == 2 and s.low == (0, 0) and min(s.more) >= 0]
        if rank == 2 and square and self.choice.random() < 0.4:
            over, low, more = "k: M", (0, 0), (0, 0)
            terms = [f"{self.choice.choice(square)}[i, k] * {self.choice.choice(square)}[i, j]"] * 2
            read = Read(terms[0], low, more)
        op = self.choice.choice(("sum", "sum", "max", "min"))
        term = " + ".join(self.choice.sample(terms, 2)) if self.choice.random() < 0.7 else read.text
        typed = f"tm.cast(tm.{self.dtype}, {term})"
        dims = self._dims(low, more)
        ordered = ", ordered=True" if self.choice.random() < 0.1 else ""
        if over not in ("k: N", "k: M") and self.choice.random() < 0.2:
            self._of_two(name, low, more, f"{{{dims}}}, {{{over}}}", typed + ordered)
            return
        self.script.do(f"{name} = f.reduction('{name}', {{{dims}}}, {{{over}}}, tm.{op}, {typed}{ordered})")
        self.sources.append(Source(name, low, more))

    def _of_two(self, name: str, low: tuple[int, ...], more: tuple[int, ...], domains: str, term: str) -> None:
        """A reduction to a value and an index, and a computation of one of them; no array of it is empty."""
        op, both = self.choice.choice(("argmin", "argmax")), f"{name}_both"
        self.script.do(f"{both} = f.reduction('{both}', {domains}, tm.{op}, {term})")
        own = f"{both}[{', '.join(ITERATORS[: len(low)])}]"
        component = self.choice.choice(("[0]", "[1]", "['index']"))
        value = f"tm.cast(tm.{self.dtype}, {own}{component})"
        self.script.do(f"{name} = f.computation('{name}', {{{self._dims(low, more)}}}, {value})")
        self.sources.append(Source(name, low, more))
