"""Random programs for cores: windows that slide, folded buffers, remainders of vectors, jammed rows, time tiles."""

from __future__ import annotations

import random

from tests.oracle.generators.random_algorithms import ITERATORS, NEW_COPY, NEW_LOOPS, PARAMS, Algorithms, Read
from tests.oracle.generators.random_programs import WEIGHTS, Commands
from tests.oracle.generators.script import Script, Seed, choices
from tiramisu_py import sets
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.program.statement import Statement

TYPES = ("uint8", "uint8", "int8", "int16", "uint16", "int32", "int32", "int64", "float32", "float32", "float64")
REMAINDERS = ("scalar", "mask", "mask", "overlap", "overlap", "pad")
OWN_WEIGHTS = {
    "ring": 9,
    "rings": 6,
    "slide": 3,
    "window": 4,
    "fold": 4,
    "lanes": 8,
    "versions_of_tiles": 3,
    "jam": 5,
    "streamed": 4,
    "prefetched": 3,
    "special": 2,
}
#: How often the commands come that other programs have too.
OTHERS = {kind: max(1, weight // 2) for kind, weight in WEIGHTS.items()}


class CpuAlgorithms(Algorithms):
    """Stencils of several types and reaches, recurrences, reductions, and loops over time."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__(choice)
        self.dtype = choice.choice(TYPES)
        self.types: dict[str, str] = {}

    def written(self) -> Script:
        """A script with inputs and one to four computations, or with a loop over time."""
        if self.choice.random() < 0.15:
            return self._in_time()
        return super().written()

    def _input(self, name: str) -> None:
        super()._input(name)
        self.types[name] = self.dtype

    def _computation(self, name: str) -> None:
        if self.choice.random() < 0.3:
            self.dtype = self.choice.choice([kind for kind in TYPES if self._fits(kind)])
        self.types[name] = self.dtype
        super()._computation(name)

    def _fits(self, kind: str) -> bool:
        """Whether every value so far can be cast to a type: none from floats to narrow integers."""
        return kind.startswith("float") or not any(known.startswith("float") for known in self.types.values())

    def _read(self, rank: int, last: bool = False) -> Read:
        read = super()._read(rank, last or self.choice.random() < 0.4)
        if self.types.get(read.text.split("[")[0]) == self.dtype:
            return read
        return Read(f"tm.cast(tm.{self.dtype}, {read.text})", read.low, read.more)

    def _index(self, d: int, source: object) -> tuple[str, int, int]:
        text, low, more = super()._index(d, source)  # type: ignore[arg-type]
        if text == ITERATORS[d] and self.choice.random() < 0.3:
            offset = self.choice.choice((-2, -1, 1, 2))
            return f"{text} + {offset}", low - offset, more - offset
        return text, low, more

    def _reduction(self, name: str, rank: int) -> None:
        """Terms are read as they are, and cast as one."""
        if len(set(self.types.values())) > 1:
            self._map(name, rank)
        else:
            super()._reduction(name, rank)

    # -- loops over time

    def _in_time(self) -> Script:
        rank, dtype = self.choice.choice((1, 1, 2)), self.choice.choice(("float32", "float64", "int32", "uint8"))
        back = self.choice.choice((1, 1, 1, 2))
        space, sizes = ITERATORS[:rank], PARAMS[:rank]
        names = ["T", *sizes]
        self.rank = rank
        self.script.do(f"{', '.join(names)}, = tm.params('{' '.join(names)}')")
        self.script.do("t, i, j, k = tm.iters('t i j k')")
        self.script.do("t0, i0, j0, t1, i1, j1, wave = tm.iters('t0 i0 j0 t1 i1 j1 wave')")
        for group in (NEW_LOOPS, ("u", "v", "w"), NEW_COPY):
            self.script.do(f"{', '.join(group)} = tm.iters('{' '.join(group)}')")
        least = " and ".join(f"{name} >= 0" for name in names)
        self.script.do(f"f = tm.Function('f', params=[{', '.join(names)}], assume='{least}')")
        more = self.choice.choice((0, 0, 1))
        self.script.do(f"a = f.input('a', tm.{dtype}, [{', '.join(f'{n} + {more}' for n in sizes)}])")
        others = f"a[{', '.join(space)}]"
        reads = [f"p[t - {back}, {', '.join(space)}]"]
        edges = [f"(t < {back})"]
        for d, (iterator, size) in enumerate(zip(space, sizes, strict=True)):
            left, right = self.choice.choice(((1, 1), (0, 1), (2, 1), (1, 0), (0, 0)))
            for offset in filter(None, (-left, right)):
                at = [f"{x} + {offset}" if e == d else x for e, x in enumerate(space)]
                step = self.choice.randint(1, back)
                reads.append(f"p[t - {step}, {', '.join(at)}]")
            edges += [f"({iterator} < {left})"] if left else []
            edges += [f"({iterator} >= {size} - {right})"] if right else []
        if self.choice.random() < 0.3:
            reads.append(others)
        dims = ", ".join(f"{x}: {n}" for x, n in zip(space, sizes, strict=True))
        body = f"tm.select({' | '.join(edges)}, {others}, {self._joined(reads)})"
        self.script.do(f"p = f.computation('p', {{t: T + 1, {dims}}}, lambda p: {body})")
        last = f"p[T, {', '.join(space)}]"
        if self.choice.random() < 0.3:
            self.script.do(f"q = f.computation('q', {{{dims}}}, {last} + {others})")
            last = "q"
        self.script.do(f"f.outputs({last})")
        self.script.declared()
        return self.script


class CpuCommands(Commands):
    """Random commands, most of them those that make loops fast on cores."""

    def __init__(self, choice: random.Random, script: Script) -> None:
        super().__init__(choice, script)
        weights = {**OTHERS, **OWN_WEIGHTS}
        self.kinds = [kind for kind, weight in weights.items() for _ in range(weight)]

    # -- windows

    def _ring(self, statement: Statement, handle: str) -> str:
        """A producer that slides along a loop of its consumer, split or not, in memory or in registers."""
        name, reader = self._producer_and_reader()
        text, own = self._handle(reader), self._name(name)
        loop = self._loop(reader)
        width = self.choice.choice((1, 2, 3, 4, 4, 8))
        form = self.choice.random()
        if form < 0.45:
            outer, inner = next(self.fresh), next(self.fresh)
            self.script.attempt(f"{text}.split({loop}, {width}, {outer}, {inner}{self._origin()})")
            loops = self.script.program.loop_names(self.script.program.statements[reader.name])
            if outer in loops and self.choice.random() < 0.4 and len(loops) > 2:
                self.script.attempt(f"{text}.reorder({outer}, {', '.join(x for x in loops if x != outer)})")
            level = outer if self.choice.random() < 0.75 else inner
            if self.choice.random() < 0.4:
                self.script.attempt(f"{text}.vectorize({inner}, {width}{self._remainder()})")
        elif form < 0.6 and len(self.script.program.loop_names(reader)) > 1:
            new = [next(self.fresh) for _ in range(4)]
            loops = self.script.program.loop_names(reader)
            self.script.attempt(
                f"{text}.tile({loops[0]}, {loops[1]}, {self.choice.choice((2, 3))}, {width}, {', '.join(new)})"
            )
            level = self.choice.choice((new[0], new[1], new[1], new[2]))
            if self.choice.random() < 0.6:
                self.script.attempt(f"{text}.vectorize({new[3]}, {width}{self._remainder()})")
        else:
            level = loop
        if not self.script.attempt(f"{own}.compute_at({text}, {level})"):
            return ""
        if not self.script.attempt(f"{own}.slide({level}{self._along(name, width)})"):
            return ""
        if self.choice.random() < 0.4:
            self.script.attempt(f"{own}.store_in(tm.REGISTER)")
        if self.choice.random() < 0.4:
            self.script.attempt(f"{own}.vectorize({self._last_of(name)}, {width}{self._remainder()})")
        if self.choice.random() < 0.3:
            return f"{text}.parallelize({self.script.program.loop_names(reader)[0]})"
        return ""

    def _rings(self, statement: Statement, handle: str) -> str:
        """Computations that feed each other, all in windows that slide along one loop of the last one."""
        program = self.script.program
        names = self._computations()
        last = program.statements_of(names[-1])[-1]
        loops, width = program.loop_names(last), self.choice.choice((2, 4, 4, 8))
        text, outer, inner = self._handle(last), next(self.fresh), next(self.fresh)
        self.script.attempt(f"{text}.split({loops[-1]}, {width}, {outer}, {inner})")
        if len(loops) > 1 and self.choice.random() < 0.5:
            self.script.attempt(f"{text}.unroll_and_jam({loops[0]}, 2, {next(self.fresh)}, {next(self.fresh)})")
        if self.choice.random() < 0.8:
            self.script.attempt(f"{text}.vectorize({inner}, {width}{self._remainder()})")
        for name in reversed(names[:-1]):
            reader = self.choice.choice(self._readers(name) or [last])
            own = self._name(name)
            if self.script.attempt(f"{own}.compute_at({self._handle(reader)}, {outer})"):
                self.script.attempt(f"{own}.slide({outer}{self._along(name, width)})")
                if self.choice.random() < 0.8:
                    self.script.attempt(f"{own}.vectorize({self._last_of(name)}, {width}{self._remainder()})")
                if self.choice.random() < 0.7:
                    self.script.attempt(f"{own}.store_in(tm.REGISTER)")
        return f"{text}.store_nontemporal(above=0)" if self.choice.random() < 0.3 else ""

    def _last_of(self, name: str) -> str:
        statements = self.script.program.statements_of(name)
        return self.script.program.loop_names(statements[-1])[-1] if statements else ITERATORS[0]

    def _along(self, name: str, width: int) -> str:
        iterators = self.script.program.algorithm.computations[name].iterators
        along = self.choice.choice(("", "", f", along={self.choice.choice(iterators)}"))
        by = self.choice.choice(("", "", f", by={width}", ", by=2"))
        return along + by + self._origin()

    def _origin(self) -> str:
        return f", origin={self.choice.choice((-2, -1, 1, 2))}" if self.choice.random() < 0.15 else ""

    def _remainder(self) -> str:
        chosen = self.choice.choice(REMAINDERS)
        versions = ", partial='specialize'" if chosen in ("mask", "pad") and self.choice.random() < 0.3 else ""
        return "" if chosen == "scalar" else f", remainder='{chosen}'{versions}"

    def _slide(self, statement: Statement, handle: str) -> str:
        level = self._loop(statement)
        along = self.choice.choice(("", f", {self._loop(statement)}", f", {self._loop(statement)}, 2"))
        return f"{handle}.slide({level}{along}{self._origin()})"

    def _window(self, statement: Statement, handle: str) -> str:
        """A copy of what a computation reads, which slides."""
        program = self.script.program
        sources = [a.source for a in accesses(statement.body) if a.source in program.storages]
        source = self.choice.choice(sources)
        name = f"{source}_{statement.name}_window"
        iterators = NEW_COPY[: sets.out_size(program.storages[source].index)]
        level = self._loop(statement)
        listed = f"[{', '.join(iterators)}]"
        if not self.script.attempt(
            f"{name} = {handle}.copy({self._name(source)}, {listed}, at={level}, name='{name}')"
        ):
            return ""
        along = f", {self.choice.choice(iterators)}{self.choice.choice(('', ', 2', ', 4'))}"
        self.script.attempt(f"{name}.slide({level}{along})")
        if self.choice.random() < 0.4:
            self.script.attempt(f"{name}.store_in(tm.REGISTER)")
        if self.choice.random() < 0.4:
            return f"{name}.vectorize({iterators[-1]}, {self.choice.choice((2, 4))}{self._remainder()})"
        return ""

    def _fold(self, statement: Statement, handle: str) -> str:
        name = self.choice.choice(self._computations())
        iterators = self.script.program.algorithm.computations[name].iterators
        return f"{self._name(name)}.fold({self.choice.choice(iterators)}, {self.choice.choice((1, 2, 2, 3, 4, 8))})"

    # -- loops

    def _lanes(self, statement: Statement, handle: str) -> str:
        width = self.choice.choice((2, 4, 4, 8, 16))
        return f"{handle}.vectorize({self._loop(statement)}, {width}{self._remainder()}{self._combine(statement)})"

    def _versions_of_tiles(self, statement: Statement, handle: str) -> str:
        outer, inner = next(self.fresh), next(self.fresh)
        size = self.choice.choice((2, 3, 4))
        if self.choice.random() < 0.6:
            self.script.attempt(f"{handle}.split({self._loop(statement)}, {size}, {outer}, {inner}{self._origin()})")
            return f"{handle}.unroll({inner}, remainder='specialize')"
        return f"{handle}.unroll({self._loop(statement)}, {size}, remainder='specialize')"

    def _jam(self, statement: Statement, handle: str) -> str:
        loop = self._loop(statement)
        new = f"{next(self.fresh)}, {next(self.fresh)}"
        if not self.script.attempt(f"{handle}.unroll_and_jam({loop}, {self.choice.choice((2, 3, 4))}, {new})"):
            return ""
        program = self.script.program
        reads = [a.source for a in accesses(statement.body) if a.source in self._computations()]
        if not reads or self.choice.random() < 0.4:
            return ""
        source = self.choice.choice(reads)
        level = self.choice.choice(program.loop_names(program.statements[statement.name]))
        self.script.attempt(f"{self._name(source)}.compute_at({handle}, {level})")
        return f"{self._name(source)}.store_in(tm.REGISTER)"

    # -- memory and versions

    def _streamed(self, statement: Statement, handle: str) -> str:
        if self.choice.random() < 0.5:
            last = self.script.program.loop_names(statement)[-1]
            self.script.attempt(f"{handle}.vectorize({last}, {self.choice.choice((4, 8, 16))}{self._remainder()})")
        return f"{handle}.store_nontemporal(above=0)"

    def _prefetched(self, statement: Statement, handle: str) -> str:
        source = self.choice.choice([a.source for a in accesses(statement.body)])
        distance = self.choice.choice((1, 2, 8, 64, -1))
        return f"{handle}.prefetch({self._name(source)}, {self._loop(statement)}, {distance})"

    def _special(self, statement: Statement, handle: str) -> str:
        names = self.script.program.algorithm.params
        chosen = names if self.choice.random() < 0.3 else (self.choice.choice(names),)
        sizes = ", ".join(f"{name}={self.choice.choice((0, 1, 2, 3, 4, 9, 17))}" for name in chosen)
        return f"f.specialize({sizes})"

    def in_time(self) -> None:
        """Time tiles of the loop over time, often with threads and lanes."""
        program = self.script.program
        rank = len(program.algorithm.computations["p"].iterators) - 1
        tiled = ITERATORS[:rank] if self.choice.random() < 0.8 else ITERATORS[rank - 1 : rank]
        tiles = ", ".join(f"{x}: {self.choice.choice((1, 2, 3, 4, 8))}" for x in tiled)
        wave = ""
        if self.choice.random() < 0.25:
            wave = f", wavefront={{{self.choice.choice(tiled)}: {self.choice.choice((1, 2, 3))}}}"
        steps = self.choice.choice((1, 2, 2, 3, 4))
        if not self.script.attempt(f"p.time_tile(t, {steps}, {{{tiles}}}{wave}{self._origin()})"):
            return
        if self.choice.random() < 0.5:
            self.script.attempt(f"p.parallelize({', '.join(x + '0' for x in tiled)})")
        if self.choice.random() < 0.5:
            self.script.attempt(f"p.vectorize({ITERATORS[rank - 1]}, {self.choice.choice((2, 4))}{self._remainder()})")


def random_cpu_script(seed: Seed) -> Script:
    """A random algorithm with up to six random commands for cores; the same for the same seed."""
    choice = choices(seed)
    script = CpuAlgorithms(choice).written()
    commands = CpuCommands(choice, script)
    if "T" in script.program.algorithm.params and choice.random() < 0.9:
        commands.in_time()
    return commands.write(choice.choice((1, 2, 3, 3, 4, 5, 6)))
