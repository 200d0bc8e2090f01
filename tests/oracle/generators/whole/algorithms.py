"""Random algorithms of all kinds: one to eight computations of up to four dimensions, of every type.

Computations are maps over boxes, triangles and pieces, choices, recurrences, reductions by every operator, several
values at once, prefixes, scatters, rows whose ends are values, and reads at values.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from tests.oracle.generators.random_algorithms import NEW_COPY, NEW_LOOPS
from tests.oracle.generators.script import Script
from tests.oracle.generators.whole.regions import (
    ITERATORS,
    PARAMS,
    TERMS,
    Bounds,
    Region,
    Regions,
    narrowed,
    region,
    where_inside,
)
from tests.oracle.generators.whole.terms import FLOATS, INTEGERS, Formulas

KINDS = ("map",) * 5 + ("choice", "recurrence", "recurrence", "reduction", "reduction", "reduction", "scan", "tuple")
#: What is of values: it keeps the judge from knowing every execution, unless it is given the arrays.
OF_VALUES = ("scatter", "rows", "keyed")
#: Operators of the user's own, by name: of integers, whose laws hold for all of them.
OPERATORS = {
    "larger": "tm.operator('larger', lambda a, b: tm.maximum(a, b), lambda dtype: dtype.limits[0])",
    "other": "tm.operator('other', lambda a, b: a ^ b, 0)",
    "grown": "tm.operator('grown', lambda a, b: a + b + a * b, 0)",
    "last": "tm.operator('last', lambda a, b: tm.select(b == 0, a, b), 0, commutative=False)",
}
PAIRS = {
    "both": "tm.operator('both', lambda a, b: (a[0] + b[0], a[1] ^ b[1]), (0, 0), names=('sum', 'odd'))",
    "affine": "tm.operator('affine', lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (1, 0), commutative=False)",
}


@dataclass(frozen=True)
class Source:
    """What can be read: an input, or a computation of single values."""

    name: str
    dtype: str
    points: isl.Set
    rank: int
    is_box: bool


class WholeAlgorithms:
    """Writes a random algorithm into a script; `exact`: sums of floats may be made in any order, and are exact."""

    def __init__(self, choice: random.Random, size: int | None = None) -> None:
        self.choice = choice
        self.script = Script()
        self.params = PARAMS[: choice.choice((1, 1, 2))]
        self.regions = Regions(choice, self.params)
        self.sources: list[Source] = []
        self.exact = choice.random() < 0.5
        self.count = size or choice.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 8))
        self.formulas = Formulas(choice, self.exact)
        self.types = self._types()
        #: Of each input whose rows have a known length, its shape.
        self.extents: dict[str, list[str]] = {}

    def _types(self) -> list[str]:
        """The types of a program: most often one, sometimes several."""
        floats = ("float32", "float64") if self.exact else FLOATS
        common = (*floats, "int32", "int64", "uint8", "int16")
        every = (*floats, *INTEGERS, "bool")
        chosen = [self.choice.choice(common if self.choice.random() < 0.7 else every)]
        while self.choice.random() < 0.3:
            chosen.append(self.choice.choice(every))
        return chosen

    def written(self) -> Script:
        """A script with one to three inputs and one to eight computations."""
        names = " ".join(self.params)
        self.script.do(f"{', '.join(self.params)}, = tm.params('{names}')")
        for group in ((*ITERATORS, *TERMS), NEW_LOOPS, NEW_COPY, ("u", "v", "w", "wave")):
            self.script.do(f"{', '.join(group)} = tm.iters('{' '.join(group)}')")
        twice = [f"{x}{n}" for x in (*ITERATORS, *TERMS) for n in (0, 1)]
        self.script.do(f"{', '.join(twice)} = tm.iters('{' '.join(twice)}')")
        least = {name: self.choice.choice((0, 0, 1, 2)) for name in self.params}
        self.positive = [name for name, bound in least.items() if bound]
        assumed = " and ".join(f"{name} >= {bound}" for name, bound in least.items())
        self.script.do(f"f = tm.Function('f', params=[{', '.join(self.params)}], assume='{assumed}')")
        for number in range(self.choice.choice((1, 1, 2, 3))):
            self._input(f"a{number}")
        for number in range(self.count):
            self._computation(f"c{number}")
        self._outputs()
        self.script.declared()
        return self.script

    def _outputs(self) -> None:
        made = [source.name for source in self.sources if source.name.startswith("c")]
        read = {name for name in made if any(f"{name}[" in line.partition(" = f.")[2] for line in self.script.lines)}
        often = {name: 0.1 if name in read else 0.9 for name in made}
        chosen = [made[-1], *(name for name in made[:-1] if self.choice.random() < often[name])]
        self.script.do(f"f.outputs({', '.join(chosen)})")

    # -- inputs

    def _input(self, name: str) -> None:
        rank, dtype = self.choice.choice((1, 1, 2, 2, 3)), self.choice.choice(self.types)
        extents = [
            self.choice.choice((*(f"{p} + {n}" for p in self.params for n in (2, 3, 4)), "5")) for _ in "x" * rank
        ]
        extents = [extents[0], *("6" if d >= 2 else extents[d] for d in range(1, rank))]
        self.script.do(f"{name} = f.input('{name}', tm.{dtype}, [{', '.join(extents)}])")
        box = region([Bounds(ITERATORS[d], "0", extent) for d, extent in enumerate(extents)])
        self.sources.append(Source(name, dtype, box.points, rank, True))
        self.extents[name] = extents if rank > 1 and extents[-1].isdigit() else []

    def _keys(self) -> tuple[str, str]:
        """An input of indices, and what its values are below."""
        size = self.params[0]
        if "keys" not in self.script.names:
            facts = self.choice.choice(("", "", "", ", monotone=True", ", permutation=True"))
            self.script.do(f"keys = f.input('keys', tm.int32, [{size} + 2], values=(0, {size} + 2){facts})")
        return "keys", f"{size} + 2"

    # -- reads

    def read(self, iterators: Sequence[str], points: isl.Set, narrow: bool) -> tuple[str, str, isl.Set] | None:
        """A read, its type, and where it lies inside its source; those that lie nowhere are none."""
        for _ in range(6):
            recent = self.sources[-2:] if self.choice.random() < 0.6 else self.sources
            source = self.choice.choice(recent)
            indices = [self._index(iterators, source) for _ in range(source.rank)]
            view = ""
            if self.extents.get(source.name) and iterators and self.choice.random() < 0.06:
                view, indices = self._viewed(iterators, source, indices)
            inside = where_inside(iterators, [affine for _, affine in indices], source.points)
            good = points.is_subset(inside) or (
                narrow and not points.intersect(inside).is_empty() and self.choice.random() < 0.6
            )
            if good or self.choice.random() < 0.0008:
                at = ", ".join(text for text, _ in indices) or "()"
                return view or f"{source.name}[{at}]", source.dtype, inside
        return None

    def _index(self, iterators: Sequence[str], source: Source) -> tuple[str, str | None]:
        """An index, and the same for isl."""
        form = self.choice.random()
        if not iterators or form < 0.06:
            return (number := self.choice.choice(("0", "0", "1"))), number
        x = self.choice.choice(iterators)
        if form < 0.10 and source.name == "a0" and source.rank == 1:
            keys, _ = self._keys()
            low = self.choice.choice(("", " + 1"))
            return f"{keys}[{x}{low}]" if self.choice.random() < 0.7 else f"tm.minimum({keys}[{x}], 1)", None
        if form < 0.16:
            size = self.choice.choice(self.params)
            return f"{size} - 1 - {x}", f"{size} - 1 - {x}"
        if form < 0.20:
            return f"{x} // 2", f"floor({x}/2)"
        if form < 0.22:
            return f"{x} % 2", f"({x} mod 2)"
        if form < 0.26 and len(iterators) > 1:
            y = self.choice.choice(iterators)
            return f"{x} + {y}", f"{x} + {y}"
        if form < 0.29:
            return f"2 * {x}", f"2*{x}"
        offset = self.choice.choice((-2, -1, 0, 0, 0, 0, 1, 1, 2))
        text = f"{x} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else x
        return text, text

    def _viewed(
        self, iterators: Sequence[str], source: Source, indices: list[tuple[str, str | None]]
    ) -> tuple[str, list[tuple[str, str | None]]]:
        """A read through other dimensions, its last two joined or the last one parted, and where it lies inside."""
        lines = self.extents[source.name]
        size, x = int(lines[-1]), self.choice.choice(iterators)
        if self.choice.random() < 0.5:
            joined = self.choice.choice((x, f"{x} + 1", f"{x} + {size}"))
            before, last = indices[:-2], [(joined, f"floor(({joined})/{size})"), (joined, f"(({joined}) mod {size})")]
            shape = [*lines[:-2], "-1"]
            texts = [*(text for text, _ in before), joined]
        else:
            part = next((n for n in (2, 3) if size % n == 0), 1)
            before, last = indices[:-1], [("", f"{part} + ({x} mod {part})")]
            shape = [*lines[:-1], str(size // part), str(part)]
            texts = [*(text for text, _ in before), "1", f"{x} % {part}"]
        text = f"{source.name}.reshape([{', '.join(shape)}])[{', '.join(texts)}]"
        return text, [*before, *last]

    def _reads(self, of: Region, count: int, narrow: bool) -> tuple[list[tuple[str, str]], Region]:
        """Several reads, and the region at which all of them are inside."""
        found: list[tuple[str, str]] = []
        for _ in range(count):
            made = self.read(of.iterators, of.points, narrow)
            if made is None:
                continue
            text, dtype, inside = made
            if not of.points.is_subset(inside) and narrow:
                less = narrowed(of, of.points.intersect(inside))
                if less is None:
                    continue
                of = less
            found.append((text, dtype))
        return found, of

    # -- computations

    def _computation(self, name: str) -> None:
        kinds = KINDS + OF_VALUES if self.choice.random() < 0.2 else KINDS
        kind, dtype = self.choice.choice(kinds), self.choice.choice(self.types)
        if not getattr(self, f"_{kind}")(name, dtype):
            self._map(name, dtype)

    def _made(self, name: str, dtype: str, of: Region) -> bool:
        is_box = not of.text and all(each.is_free for each in of.bounds)
        self.sources.append(Source(name, dtype, of.points, len(of.bounds), is_box))
        return True

    def _declare(self, name: str, dtype: str, of: Region, expr: str) -> bool:
        self.script.do(f"{name} = f.computation('{name}', {self._domain(of)}, {expr}, dtype=tm.{dtype})")
        return self._made(name, dtype, of)

    def _domain(self, of: Region) -> str:
        """A domain as the declaration takes it: isl's text has the function's own parameters."""
        own = f"[{', '.join(self.params)}]"
        return repr(of.text.replace(f"[{', '.join(PARAMS)}]", own, 1)) if of.text else of.declared

    def _map(self, name: str, dtype: str) -> bool:
        reads, of = self._reads(self.regions.values(), self.choice.choice((1, 1, 2, 2, 3)), True)
        return self._declare(name, dtype, of, self.formulas.expression(dtype, reads, of.iterators))

    def _choice(self, name: str, dtype: str) -> bool:
        """One of two expressions, by an affine condition, or by values."""
        reads, of = self._reads(self.regions.values(), 3, True)
        if not of.bounds:
            return False
        x, size = self.choice.choice(of.iterators), self.choice.choice(self.params)
        conditions = [f"{x} % 2 == 0", f"{x} > 0", f"{x} < {size} - 1", f"({x} == 0) | ({x} == 1)", f"~({x} <= 1)"]
        condition = self.choice.choice(conditions)
        if reads and self.choice.random() < 0.4:
            condition = self.formulas.condition(reads[0])
        yes, no = (self.formulas.expression(dtype, reads, of.iterators) for _ in range(2))
        return self._declare(name, dtype, of, f"tm.select({condition}, {yes}, {no})")

    def _recurrence(self, name: str, dtype: str) -> bool:
        """Along one dimension, from what comes some steps before, or after."""
        reads, of = self._reads(self.regions.values(), 2, False)
        if not of.bounds or of.text:
            return False
        free = [d for d, each in enumerate(of.bounds) if each.is_free]
        later = {d for d in free if all(each.is_free for each in of.bounds[d + 1 :])}
        if not later:
            return False
        d, step = self.choice.choice(sorted(later)), self.choice.choice((1, 1, 2))
        bounds, before = of.bounds[d], [*of.iterators]
        backwards = self.choice.random() < 0.2
        before[d] += f" {'+' if backwards else '-'} {step}"
        first = f"{bounds.iterator} {f'>= {bounds.high} - {step}' if backwards else f'< {bounds.low} + {step}'}"
        own = f"{name}[{', '.join(before)}]"
        start = self.formulas.expression(dtype, reads, of.iterators)
        again = self.formulas.expression(dtype, [(own, dtype), *reads], of.iterators, own)
        text = f"lambda {name}: tm.select({first}, {start}, {again})"
        return self._declare(name, dtype, of, text)

    # -- reductions

    def _terms(self, dtype: str) -> tuple[Region, str, str] | None:
        """Values, loops over terms, and a term."""
        of = self.regions.values()
        if of.text:
            return None
        over = self.regions.terms(of)
        whole = region([*of.bounds, *over])
        reads, _ = self._reads(whole, self.choice.choice((1, 1, 2)), False)
        term = self.formulas.expression(dtype, reads, whole.iterators)
        return of, f"{{{', '.join(each.declared for each in over)}}}", term

    def _reduction(self, name: str, dtype: str) -> bool:
        made = self._terms(dtype)
        if made is None:
            return False
        of, over, term = made
        operators = ["sum", "sum", "sum", "max", "min", "product"]
        if dtype == "bool":
            operators = ["logical_and", "logical_or"]
        op, options = f"tm.{self.choice.choice(operators)}", ""
        if dtype in INTEGERS and self.choice.random() < 0.3:
            op = self._operator(OPERATORS)
        is_sum = dtype in FLOATS and op in ("tm.sum", "tm.product")
        if is_sum and op == "tm.product" and self.exact:
            op = "tm.sum"
        if (is_sum and not self.exact) or self.choice.random() < 0.08:
            options += ", ordered=True"
        if of.bounds and self.choice.random() < 0.06:
            options += f", where={self.choice.choice((f'{TERMS[0]} != 1', f'{of.iterators[0]} != {TERMS[0]}'))}"
        self.script.do(
            f"{name} = f.reduction('{name}', {of.declared}, {over}, {op}, {term}, dtype=tm.{dtype}{options})"
        )
        return self._made(name, dtype, of)

    def _operator(self, known: dict[str, str]) -> str:
        chosen = self.choice.choice([*known])
        if chosen not in self.script.names:
            self.script.do(f"{chosen} = {known[chosen]}")
        return chosen

    def _tuple(self, name: str, dtype: str) -> bool:
        """Two values at once, and a computation of one of them."""
        if dtype == "bool":
            return False
        made = self._terms(dtype)
        if made is None:
            return False
        of, over, term = made
        both, own = f"{name}_both", ", ".join(of.iterators) or "()"
        if dtype in INTEGERS and self.choice.random() < 0.5:
            op = self._operator(PAIRS)
            term, component = f"({term}, {term})", self.choice.choice(("[0]", "[1]"))
        else:
            extent = over.rpartition(": ")[2].rstrip("}")
            if TERMS[1] in over or not (extent.isdigit() or extent in self.positive):  # of nothing there is no place
                return False
            op, component = f"tm.{self.choice.choice(('argmin', 'argmax'))}", self.choice.choice(("[0]", "[1]"))
        ordered = ", ordered=True" if self.choice.random() < 0.1 else ""
        self.script.do(f"{both} = f.reduction('{both}', {of.declared}, {over}, {op}, {term}{ordered})")
        return self._declare(name, dtype, of, f"tm.cast(tm.{dtype}, {both}[{own}]{component})")

    def _scan(self, name: str, dtype: str) -> bool:
        reads, of = self._reads(self.regions.values(), 1, False)
        if not of.bounds or of.text or dtype == "bool" or not reads or not all(each.is_free for each in of.bounds):
            return False
        if dtype in FLOATS and not self.exact:
            dtype = "int32"
        options = ", exclusive=True" if self.choice.random() < 0.3 else ""
        if self.choice.random() < 0.3 and of.bounds[-1].low == "0":
            options += f", chunks={{{self.choice.choice(NEW_COPY)}: {self.choice.choice((2, 4))}}}"
        term = self.formulas.expression(dtype, reads, of.iterators)
        op = self.choice.choice(("sum", "sum", "max", "min") if "exclusive" not in options else ("sum",))
        self.script.do(f"{name} = f.scan('{name}', {of.declared}, {term}, tm.{op}, dtype=tm.{dtype}{options})")
        return self._made(name, dtype, of)

    # -- of values

    def _scatter(self, name: str, dtype: str) -> bool:
        """Terms that say which value they go to."""
        if dtype == "bool" or (dtype in FLOATS and not self.exact):
            return False
        keys, size = self._keys()
        over = region([Bounds(TERMS[0], "0", size)])
        reads, _ = self._reads(over, 1, False)
        place = self.choice.choice((f"{keys}[{TERMS[0]}]", f"{keys}[{TERMS[0]}] // 2", f"{keys}[{TERMS[0]}] - 1"))
        term, of = self.formulas.expression(dtype, reads, over.iterators), region([Bounds("i", "0", size)])
        op = self.choice.choice(("sum", "sum", "max", "min"))
        self.script.do(
            f"{name} = f.scatter('{name}', {of.declared}, over={over.declared}, at=[{place}], op=tm.{op}, expr={term}, "
            f"dtype=tm.{dtype})"
        )
        return self._made(name, dtype, of)

    def _keyed(self, name: str, dtype: str) -> bool:
        """The terms whose key is a value's own index."""
        if dtype == "bool" or (dtype in FLOATS and not self.exact):
            return False
        keys, size = self._keys()
        over, of = Bounds(TERMS[0], "0", size), region([Bounds("i", "0", size)])
        reads, _ = self._reads(region([*of.bounds, over]), 2, False)
        term = self.formulas.expression(dtype, reads, ("i", TERMS[0]))
        self.script.do(
            f"{name} = f.reduction('{name}', {of.declared}, {{{over.declared}}}, tm.sum, {term}, "
            f"dtype=tm.{dtype}, where={keys}[{TERMS[0]}] == i)"
        )
        return self._made(name, dtype, of)

    def _rows(self, name: str, dtype: str) -> bool:
        """Sums of rows that follow one another, which end at values."""
        if dtype == "bool" or (dtype in FLOATS and not self.exact):
            return False
        keys, size = self._keys()
        of = region([Bounds("i", "0", f"{self.params[0]} + 1")])
        whole = region([*of.bounds, Bounds(TERMS[0], "0", size)])
        reads, _ = self._reads(whole, 2, False)
        term = self.formulas.expression(dtype, reads, whole.iterators)
        over = f"{{{TERMS[0]}: ({keys}[i], {keys}[i + 1])}}"
        self.script.do(f"{name} = f.reduction('{name}', {of.declared}, {over}, tm.sum, {term}, dtype=tm.{dtype})")
        return self._made(name, dtype, of)
