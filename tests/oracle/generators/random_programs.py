"""Random programs: a random algorithm, then random commands."""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.oracle.generators.random_algorithms import ITERATORS, NEW_COPY, NEW_LOOPS, Algorithms
from tests.oracle.generators.script import Script, Seed, choices
from tiramisu_py import sets
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.program.statement import Role, Statement

_FOLDS = ("i % 2, j", "i, j % 2", "j, i", "i % 2, j % 2", "(i + j) % 3", "0, j", "i + j")
_MAPS_1 = ("u = -i", "u = i, v = i", "u = floor(i/2), v = i", "u = 0", "u = 2i")
_MAPS_2 = ("u = j, v = i", "u = i + j, v = j", "u = i, v = floor(j/2), w = -j", "u = j", "u = 2i + j")
WEIGHTS = {
    "split": 4,
    "tile": 3,
    "coalesce": 2,
    "interchange": 3,
    "reorder": 2,
    "shift": 2,
    "skew": 2,
    "skews": 1,
    "transform": 2,
    "banded": 2,
    "reverse": 2,
    "parallelize": 4,
    "vectorize": 3,
    "unroll": 1,
    "order": 4,
    "fused": 5,
    "separate": 2,
    "compute_at": 4,
    "store_at": 1,
    "inline": 1,
    "store_in": 4,
    "set_schedule": 1,
    "sliding": 3,
    "overlapped": 3,
    "wavefront": 2,
    "combined": 3,
    "factored": 3,
    "ends": 3,
    "register": 1,
    "pinned": 2,
    "cache": 3,
}


class Commands:
    """Adds random commands to a script; those that are refused leave no line."""

    def __init__(self, choice: random.Random, script: Script) -> None:
        self.choice = choice
        self.script = script
        self.fresh = iter(NEW_LOOPS)
        self.kinds = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]

    def write(self, count: int) -> Script:
        """At most `count` commands."""
        for _ in range(count):
            line = self._line(self.choice.choice(self.kinds))
            if line:
                self.script.attempt(line)
        return self.script

    def _line(self, kind: str) -> str:
        statement = self.choice.choice(list(self.script.program.statements.values()))
        try:
            text: str = getattr(self, f"_{kind}")(statement, self._handle(statement))
        except (IndexError, StopIteration, ValueError):
            return ""  # nothing to choose from
        return text

    def _handle(self, statement: Statement) -> str:
        for role in (Role.INIT, Role.UPDATE):
            if statement.role is role and statement.name == f"{statement.source}_{role.value}":
                return f"{self._name(statement.source)}.{role.value}"
        return self._name(statement.name)

    def _name(self, name: str) -> str:
        return name if name in self.script.names else f"f['{name}']"

    def _loop(self, statement: Statement) -> str:
        return self.choice.choice(self.script.program.loop_names(statement))

    def _other(self, statement: Statement) -> Statement:
        others = [s for s in self.script.program.statements.values() if s is not statement]
        return self.choice.choice(others)

    def _computations(self) -> list[str]:
        return [name for name in self.script.program.algorithm.computations if name in self.script.program.storages]

    def _readers(self, source: str) -> list[Statement]:
        program = self.script.program
        return [
            s
            for s in program.statements.values()
            if s.source != source and any(a.source == source for a in accesses(s.body)) and s.role is not Role.COPY
        ]

    def _producer_and_reader(self) -> tuple[str, Statement]:
        read = [(name, reader) for name in self._computations() for reader in self._readers(name)]
        return self.choice.choice(read)

    # -- loops

    def _split(self, statement: Statement, handle: str) -> str:
        origin = f", origin={self.choice.choice((-1, 1))}" if self.choice.random() < 0.15 else ""
        size = self.choice.choice((1, 2, 2, 3, 4, 8))
        return f"{handle}.split({self._loop(statement)}, {size}, {next(self.fresh)}, {next(self.fresh)}{origin})"

    def _tile(self, statement: Statement, handle: str) -> str:
        loops = self.script.program.loop_names(statement)
        at = loops.index(self.choice.choice(loops[:-1]))
        sizes = self.choice.choice(("2, 2", "2, 3", "3, 2", "4, 4"))
        a, b, c, d = next(self.fresh), next(self.fresh), next(self.fresh), next(self.fresh)
        return f"{handle}.tile({loops[at]}, {loops[at + 1]}, {sizes}, {a}, {b}, {c}, {d})"

    def _coalesce(self, statement: Statement, handle: str) -> str:
        """Two loops as one: most often the parts of a loop that was split, since sizes are no constants."""
        loops = self.script.program.loop_names(statement)
        into = next(self.fresh)
        if self.choice.random() < 0.3 and len(loops) > 1:
            at = loops.index(self.choice.choice(loops[:-1]))
            return f"{handle}.coalesce({loops[at]}, {loops[at + 1]}, into={into})"
        outer, inner = next(self.fresh), next(self.fresh)
        self.script.attempt(
            f"{handle}.split({self._loop(statement)}, {self.choice.choice((2, 3, 4))}, {outer}, {inner})"
        )
        producers = ", producers=True" if self.choice.random() < 0.2 else ""
        return f"{handle}.coalesce({outer}, {inner}, into={into}{producers})"

    def _interchange(self, statement: Statement, handle: str) -> str:
        return f"{handle}.interchange({self._loop(statement)}, {self._loop(statement)})"

    def _reorder(self, statement: Statement, handle: str) -> str:
        loops = list(self.script.program.loop_names(statement))
        self.choice.shuffle(loops)
        return f"{handle}.reorder({', '.join(loops[: self.choice.randint(2, 4)])})"

    def _shift(self, statement: Statement, handle: str) -> str:
        return f"{handle}.shift({self._loop(statement)}, {self.choice.choice(('1', '1', '2', '-1', 'N'))})"

    def _skew(self, statement: Statement, handle: str) -> str:
        factor = self.choice.choice((1, 1, 2, -1))
        return f"{handle}.skew({self._loop(statement)}, {self._loop(statement)}, {factor})"

    def _skews(self, statement: Statement, handle: str) -> str:
        loops = self.script.program.loop_names(statement)
        first, second, third = loops[:3] if len(loops) > 2 else (*loops, loops[-1])
        several = (f"{{{first}: 1, {second}: 1}}, {third}", f"{first}, {{{second}: 1, {third}: -1}}")
        return f"{handle}.skew({self.choice.choice(several)})"

    def _transform(self, statement: Statement, handle: str) -> str:
        loops = list(self.script.program.loop_names(statement))
        self.choice.shuffle(loops)
        matrices = ("[[1, 1], [0, 1]]", "[[0, 1], [1, 0]]", "[[1, 0], [1, 1]]", "[[2, 1], [1, 1]]", "[[-1, 0], [2, 1]]")
        new = f", [{next(self.fresh)}, {next(self.fresh)}]" if self.choice.random() < 0.5 else ""
        return f"{handle}.transform([{', '.join(loops[:2])}], {self.choice.choice(matrices)}{new})"

    def _banded(self, statement: Statement, handle: str) -> str:
        other = self.choice.choice((statement, statement, self._other(statement)))
        both = handle if other is statement else f"f.schedule({handle}, {self._handle(other)})"
        goal = self.choice.choice(("LOCALITY", "PARALLEL"))
        loop = self.script.program.loop_names(statement)[0]
        tiles = f", tiles={{{loop}: {self.choice.choice((2, 3))}}}" if self.choice.random() < 0.3 else ""
        tiles = tiles if f"{loop}0" in self.script.names else ""  # tiles and their loops are i0 and i1
        return f"{both}.skew_for(tm.{goal}{tiles})"

    def _reverse(self, statement: Statement, handle: str) -> str:
        return f"{handle}.reverse({self._loop(statement)})"

    # -- tags

    def _combine(self, statement: Statement) -> str:
        often = 0.6 if statement.role is Role.UPDATE else 0.05
        return (
            self.choice.choice((", combine=tm.PRIVATE", ", combine=tm.ATOMIC")) if self.choice.random() < often else ""
        )

    def _parallelize(self, statement: Statement, handle: str) -> str:
        loops = self.script.program.loop_names(statement)
        at = self.choice.randrange(len(loops))
        two = f", {loops[at + 1]}" if at + 1 < len(loops) and self.choice.random() < 0.2 else ""
        schedule = self.choice.choice(("", "", ", schedule='dynamic'"))
        return f"{handle}.parallelize({loops[at]}{two}{schedule}{self._combine(statement)})"

    def _vectorize(self, statement: Statement, handle: str) -> str:
        return f"{handle}.vectorize({self._loop(statement)}, {self.choice.choice((2, 4, 8))}{self._combine(statement)})"

    def _unroll(self, statement: Statement, handle: str) -> str:
        return f"{handle}.unroll({self._loop(statement)}{self.choice.choice(('', ', 2', ', 3'))})"

    def _set_schedule(self, statement: Statement, handle: str) -> str:
        maps = _MAPS_1 if len(statement.dims) == 1 else _MAPS_2 if len(statement.dims) == 2 else ()
        dims = ", ".join(ITERATORS[: len(statement.dims)])
        return f"{handle}.set_schedule('{{ [{dims}] -> [{self.choice.choice(maps)}] }}')"

    # -- order and parts

    def _order(self, statement: Statement, handle: str) -> str:
        other = self._other(statement)
        level = self._loop(self.choice.choice((statement, other))) if self.choice.random() < 0.85 else "tm.root"
        command = self.choice.choice(("after", "after", "before", "fuse"))
        return f"{handle}.{command}({self._handle(other)}, {level})"

    def _fused(self, statement: Statement, handle: str) -> str:
        """A reader after its producer, and often the shift that makes it right, sometimes found by the command."""
        name, reader = self._producer_and_reader()
        program = self.script.program
        producer = self.choice.choice(program.statements_of(name))
        level = self._loop(reader)
        if self.choice.random() < 0.3:
            both = [self._handle(reader), self._handle(producer)]
            self.choice.shuffle(both)
            return f"{both[0]}.fuse({both[1]}, {level}, shift=True)"
        line = f"{self._handle(reader)}.after({self._handle(producer)}, {level})"
        if self.script.attempt(line) and self.choice.random() < 0.6:
            return f"{self._handle(reader)}.shift({level}, {self.choice.choice((1, 1, 2))})"
        return ""

    def _sliding(self, statement: Statement, handle: str) -> str:
        """A reader some iterations behind its producer, which keeps only what is still needed."""
        name, reader = self._producer_and_reader()
        program = self.script.program
        level = program.loop_names(reader)[0]
        behind = self._handle(reader)
        if not self.script.attempt(f"{behind}.after({self._handle(program.statements_of(name)[-1])}, {level})"):
            return ""
        self.script.attempt(f"{behind}.shift({level}, {self.choice.choice((0, 1, 2))})")
        iterators = program.algorithm.computations[name].iterators
        rest = "".join(f", {iterator}" for iterator in iterators[1:])
        return f"{self._name(name)}.store_in([{iterators[0]} % {self.choice.choice((2, 3, 4))}{rest}])"

    def _overlapped(self, statement: Statement, handle: str) -> str:
        """A reader in tiles that threads compute, its producer computed again for each of them."""
        name, reader = self._producer_and_reader()
        loop, (outer, inner) = self.script.program.loop_names(reader)[0], (next(self.fresh), next(self.fresh))
        text, size = self._handle(reader), self.choice.choice((2, 3, 4))
        if self.script.attempt(f"{text}.split({loop}, {size}, {outer}, {inner})"):
            self.script.attempt(f"{self._name(name)}.compute_at({text}, {outer})")
            self.script.attempt(f"{text}.parallelize({outer})")
        return f"{text}.vectorize({inner}, {self.choice.choice((2, 4))})"

    def _wavefront(self, statement: Statement, handle: str) -> str:
        """Two loops skewed and swapped, the inner one parallel."""
        a, b = self.script.program.loop_names(statement)[:2] if len(statement.loops) > 1 else ("", "")
        if a and self.script.attempt(f"{handle}.skew({a}, {b}, {self.choice.choice((1, 1, 2))})"):
            self.script.attempt(f"{handle}.interchange({a}, {b})")
            return f"{handle}.parallelize({a})"
        return ""

    def _combined(self, statement: Statement, handle: str) -> str:
        """The terms of a reduction in blocks, dealt out to threads or lanes."""
        updates = [s for s in self.script.program.statements.values() if s.role is Role.UPDATE]
        update = self.choice.choice(updates)
        loops, handle = self.script.program.loop_names(update), self._handle(update)
        outer, inner = next(self.fresh), next(self.fresh)
        self.script.attempt(f"{handle}.split({loops[-1]}, 2, {outer}, {inner})")
        order = [*self.script.program.loop_names(self.script.program.statements[update.name])]
        self.choice.shuffle(order)
        self.script.attempt(f"{handle}.reorder({', '.join(order)})")
        combine = self.choice.choice(("", ", combine=tm.PRIVATE", ", combine=tm.ATOMIC"))
        if self.choice.random() < 0.5:
            return f"{handle}.vectorize({self.choice.choice(order)}, 2{combine})"
        return f"{handle}.parallelize({self.choice.choice(order)}{combine})"

    def _factored(self, statement: Statement, handle: str) -> str:
        """The terms of a reduction in partial results, often in registers, in a loop of their combination."""
        updates = [s for s in self.script.program.statements.values() if s.role is Role.UPDATE]
        update = self.choice.choice(updates)
        handle = self._handle(update)
        loops = self.script.program.loop_names(update)
        if self.choice.random() < 0.7:
            outer, inner = next(self.fresh), next(self.fresh)
            self.script.attempt(f"{handle}.split({loops[-1]}, {self.choice.choice((2, 3, 4))}, {outer}, {inner})")
            loops = self.script.program.loop_names(self.script.program.statements[update.name])
        named = self.choice.sample(loops[-2:], self.choice.choice((1, 1, 1, 2)) if len(loops) > 1 else 1)
        before = set(self.script.program.algorithm.computations)
        if not self.script.attempt(f"{handle}.rfactor({', '.join(named)})") or self.choice.random() < 0.4:
            return ""
        (partial,) = self._handles(set(self.script.program.algorithm.computations) - before)
        loop = self._loop(self.script.program.statements[update.name])
        if self.script.attempt(f"{partial}.compute_at({handle}, {loop})") and self.choice.random() < 0.4:
            self.script.attempt(f"{partial}.store_in(tm.REGISTER)")
        return f"{partial}.vectorize({self.choice.choice(loops)}, {self.choice.choice((2, 4))}{self._combine(update)})"

    def _ends(self, statement: Statement, handle: str) -> str:
        """The start of a reduction with its first block of terms, and a reader after the last one."""
        update = self.choice.choice([s for s in self.script.program.statements.values() if s.role is Role.UPDATE])
        handle = self._handle(update)
        *values, last = self.script.program.loop_names(update)
        if self.choice.random() < 0.7:
            outer, inner = next(self.fresh), next(self.fresh)
            if self.script.attempt(f"{handle}.split({last}, {self.choice.choice((2, 3, 4))}, {outer}, {inner})"):
                self.script.attempt(f"{handle}.reorder({', '.join((outer, *values, inner))})")
        level = self.choice.choice(self.script.program.loop_names(self.script.program.statements[update.name]))
        if self.choice.random() < 0.8:
            self.script.attempt(f"{self._name(update.source)}.init.compute_at({handle}, {level})")
        return f"{self._handle(self.choice.choice(self._readers(update.source)))}.reverse_compute_at({handle}, {level})"

    def _handles(self, names: Iterable[str]) -> list[str]:
        return [self._name(name) for name in sorted(names)]

    def _separate(self, statement: Statement, handle: str) -> str:
        cut = self.choice.choice(("1", "2", "N - 1", "1, N - 1"))
        parts = [f"{statement.name}_{n}" for n in range(cut.count(",") + 2)]
        return f"{', '.join(parts)}, *_ = {handle}.separate_at({self._loop(statement)}, [{cut}])"

    # -- places

    def _compute_at(self, statement: Statement, handle: str) -> str:
        name, reader = self._producer_and_reader()
        return f"{self._name(name)}.compute_at({self._handle(reader)}, {self._loop(reader)})"

    def _store_at(self, statement: Statement, handle: str) -> str:
        name, reader = self._producer_and_reader()
        return f"{self._name(name)}.store_at({self._handle(reader)}, {self._loop(reader)})"

    def _inline(self, statement: Statement, handle: str) -> str:
        return f"{self._name(self._producer_and_reader()[0])}.inline()"

    def _store_in(self, statement: Statement, handle: str) -> str:
        name = self.choice.choice(self._computations())
        program = self.script.program
        iterators = program.algorithm.computations[name].iterators
        if self.choice.random() < 0.3:
            sharing = [n for n, s in program.storages.items() if n != name and s.source == n]
            into = self.choice.choice(sharing)
            rank = len(program.buffers[program.storages[into].buffer].extents)
            indices = [iterators[d] if d < len(iterators) else "0" for d in range(rank)]
            return f"{self._name(name)}.store_in({self._name(into)}, [{', '.join(indices)}])"
        forms = ("i % 2", "i % 3", "i // 2", "i", "0") if len(iterators) == 1 else _FOLDS
        return f"{self._name(name)}.store_in([{self.choice.choice(forms)}])"

    def _register(self, statement: Statement, handle: str) -> str:
        return f"{self._name(self.choice.choice(self._computations()))}.store_in(tm.REGISTER)"

    def _pinned(self, statement: Statement, handle: str) -> str:
        """A producer inside its consumer's tile, in registers, with loops unrolled."""
        name, reader = self._producer_and_reader()
        text = self._handle(reader)
        if self.script.attempt(f"{self._name(name)}.compute_at({text}, {self._loop(reader)})"):
            self.script.attempt(f"{self._name(name)}.store_in(tm.REGISTER)")
            for loop in self.script.program.loop_names(self.script.program.statements[reader.name]):
                self.script.attempt(f"{text}.unroll({loop})")
        return ""

    def _cache(self, statement: Statement, handle: str) -> str:
        program = self.script.program
        sources = [a.source for a in accesses(statement.body) if a.source in program.storages]
        source = self.choice.choice(sources)
        name = f"{source}_{statement.name}_cache"
        iterators = NEW_COPY[: sets.out_size(program.storages[source].index)]
        level = self._loop(statement) if self.choice.random() < 0.8 else "tm.root"
        listed = f"[{', '.join(iterators)}]"
        extra = self.choice.choice(("", "", ", into=tm.REGISTER"))
        if self.choice.random() < 0.3:
            turned = ("y1, y0", "y1 // 2, y0, y1 % 2") if len(iterators) == 2 else ("2 * y0", "y0 // 2, y0 % 2")
            extra += f", layout=[{self.choice.choice(turned)}]"
        return f"{name} = {handle}.copy({self._name(source)}, {listed}, at={level}, name='{name}'{extra})"


def random_script(seed: Seed) -> Script:
    """A random algorithm with up to six random commands; the same for the same seed."""
    choice = choices(seed)
    script = Algorithms(choice).written()
    return Commands(choice, script).write(choice.choice((0, 1, 2, 3, 4, 5, 6, 8)))
