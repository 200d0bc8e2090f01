"""Random programs with ranks: stencils on one or two axes, time loops, exchanges that are right, and damage to them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

from tests.oracle.generators.rank_stencils import Dim, Hop, RankCommands, Read, Source, plus
from tests.oracle.generators.script import Script

#: What goes wrong with one exchange, or with their order.
DAMAGES = ("short", "wide", "apart", "peer", "gone", "order", "wait", "collapse", "reverse", "ring", "moved")
STEPS = 3


class RankScripts:
    """Writes one random program."""

    def __init__(self, choice: random.Random, damaged: bool | None = None) -> None:
        self.choice = choice
        self.more = random.Random(repr(choice.getstate()[1][:3]))  # what has come later leaves old programs alone
        self.script = Script()
        block, other = choice.choice((1, 2, 2, 3)), choice.choice((1, 2))
        row = Dim("i", "N", block, "q", "x")
        kind = choice.choice(("row", "row", "row", "rows", "tiles", "time", "time"))
        self.timed = kind == "time"
        self.dims = {"rows": (row, Dim("j", "2")), "tiles": (row, Dim("j", "M", other, "r", "y"))}.get(kind, (row,))
        self.params = ("N", "M") if kind == "tiles" else ("N",)
        self.sources: list[Source] = []
        self.reads: list[Read] = []
        self.sequence: list[str] = []
        self.count = 0
        wrong = choice.random() < 0.5 if damaged is None else damaged
        self.damage = choice.choice(DAMAGES) if wrong else ""

    # -- algorithm

    def written(self, derived: bool = False) -> Script:
        """The script, with exchanges by hand, or derived ones."""
        names = " ".join(self.params)
        self.script.do(f"{', '.join(self.params)}, = tm.params('{names}')")
        self.script.do("i, j, t, q, r, x, y = tm.iters('i j t q r x y')")
        least = " and ".join(f"{name} >= {self.choice.choice((0, 1, 1, 2))}" for name in self.params)
        self.script.do(f"f = tm.Function('f', params=[{', '.join(self.params)}], assume='{least}')")
        self._input("a")
        names = ["u"] if self.timed else list("pso"[: self.choice.choice((1, 2, 2, 2, 3))])
        for name in names:
            self._timed(name) if self.timed else self._stencil(name)
        output = f"u[{STEPS - 1}, i]" if self.timed and self.choice.random() < 0.8 else names[-1]
        self.script.do(f"f.outputs({output})")
        self.script.declared()
        self._placed(names, output)
        if derived:
            deep = ["depth={t: 2}"] if self.timed else []
            self.script.attempt(f"f.derive_transfers({self.choice.choice(['', '', '', 'overlap=True', *deep])})")
        else:
            self._exchanged(names)
        return self.script

    def _input(self, name: str) -> None:
        more = tuple(self.choice.choice((0, 0, 1, 2)) if dim.block else 2 for dim in self.dims)
        extents = ", ".join(plus(dim.extent, by) for dim, by in zip(self.dims, more, strict=True))
        self.script.do(f"{name} = f.input('{name}', tm.int64, [{extents}])")
        self.sources.append(Source(name, (0,) * len(more), more, False))

    def _offset(self) -> int:
        return self.choice.choice((-2, -1, -1, 0, 0, 0, 1, 1, 2))

    def _stencil(self, name: str) -> None:
        texts, low, more, spans = [], [0] * len(self.dims), [2] * len(self.dims), []
        for n in range(self.choice.choice((1, 2, 2, 3))):
            source = self.sources[-1] if n == 0 or self.choice.random() < 0.6 else self.choice.choice(self.sources)
            offsets = [self._offset() for _ in self.dims]
            indices = []
            for d, (dim, by) in enumerate(zip(self.dims, offsets, strict=True)):
                low[d], more[d] = max(low[d], source.low[d] - by), min(more[d], source.more[d] - by)
                indices.append(plus(dim.iterator, by))
            texts.append(f"{source.name}[{', '.join(indices)}]")
            spans.append((source, tuple(offsets)))
        made = Source(name, tuple(low), tuple(more), self.choice.random() < 0.95)
        self.script.do(f"{name} = f.computation('{name}', {{{self._domain(made)}}}, {' + '.join(texts)})")
        for source in {source.name: source for source, _ in spans}.values():
            offsets_of = [by for other, by in spans if other is source]
            least, most = (tuple(f(by) for by in zip(*offsets_of, strict=True)) for f in (min, max))
            self.reads.append(Read(made, source, least, most))
        self.sources.append(made)

    def _domain(self, source: Source) -> str:
        return ", ".join(
            f"{dim.iterator}: ({low}, {plus(dim.extent, more)})"
            for dim, low, more in zip(self.dims, source.low, source.more, strict=True)
        )

    def _timed(self, name: str) -> None:
        a, back, on = self.sources[0], self.choice.choice((0, 1, 1, 2)), self.choice.choice((0, 1, 1, 2))
        made = Source(name, (0,), (a.more[0],), True, True)
        edge = f"(t == 0) | (i < {back}) | (i >= {plus('N', a.more[0] - on)})"
        expr = f"tm.select({edge}, a[i], {name}[t - 1, {plus('i', -back)}] + {name}[t - 1, {plus('i', on)}])"
        domain = f"t: {STEPS}, {self._domain(made)}"
        self.script.do(f"{name} = f.computation('{name}', {{{domain}}}, lambda {name}: {expr})")
        self.reads += [Read(made, a, (0,), (0,)), Read(made, made, (-back,), (on,))]
        self.sources.append(made)

    # -- places

    def _placed(self, names: Sequence[str], output: str) -> None:
        axes = [dim for dim in self.dims if dim.block]
        made = {source.name: source for source in self.sources}
        stages = [name for name in names if made[name].aligned] + (["f['u_out']"] if output.startswith("u[") else [])
        for name in stages:
            for dim in axes:
                self.script.attempt(f"{name}.split({dim.iterator}, {dim.block}, {dim.rank}, {dim.inner})")
            if len(axes) == 2:
                self.script.attempt(f"{name}.reorder(q, r, x, y)")
            self.script.attempt(f"{name}.tag_distribute({', '.join(dim.rank for dim in axes)})")
        self._distributed("a", 0.6)
        last = "f['u_out']" if output.startswith("u[") else names[-1]
        self._distributed(last, 0.7 if (last in names and made[last].aligned) or last not in names else 0.1)

    def _distributed(self, name: str, aligned: float) -> None:
        count = 2 if name == "u" else len(self.dims)
        iterators = ", ".join(["i"] if count == 1 else ["t", "i"] if name == "u" else ["i", "j"])
        along = [f"{dim.iterator} // {dim.block}" for dim in self.dims if dim.block]
        if self.choice.random() >= aligned:
            kind = self.choice.choice(("full", "full", "cyclic", "zero", "other"))
            if kind == "full":
                return
            along[0] = {"cyclic": f"({along[0]}) % 2", "zero": "0", "other": "i // 2"}[kind]
        elif name == "a":
            source = self.sources[0]
            self._replace(Source("a", source.low, source.more, True))
        self.script.attempt(f"{name}.distribute_array([{iterators}], rank=({', '.join(along)},))")

    def _replace(self, changed: Source) -> None:
        """An input turns out to be aligned."""
        self.sources[0] = changed
        self.reads = [
            Read(read.reader, changed, read.least, read.most) if read.source.name == changed.name else read
            for read in self.reads
        ]

    # -- exchanges

    def _exchanged(self, names: Sequence[str]) -> None:
        groups = {name: self._before(name) for name in names}
        hurt = self.choice.choice([x for group in groups.values() for x in group] or [None])
        for name, group in groups.items():
            style = "ring" if self.damage == "ring" else self.choice.choice(("pairs", "first", "all", "buffered"))
            if self.timed and group and group[0].read.source.timed:
                self._at(name, group, style, hurt)
                continue
            self.sequence += self._lines(group, style, hurt, "")
            self.sequence.append(name)
        if self.damage == "order":
            self.choice.shuffle(self.sequence)
        if len(self.sequence) > 1:
            self.script.attempt(f"f.order({', '.join(self.sequence)}, at=tm.root)")
        if self.damage == "moved" or (not self.damage and self.choice.random() < 0.4):
            RankCommands(self.choice, self.script).write(self.choice.choice((1, 2, 3)))

    def _before(self, name: str) -> list[Hop]:
        """The exchanges that must come before a computation."""
        found = []
        for read in self.reads:
            if read.reader.name != name or not (read.reader.aligned and read.source.aligned):
                continue
            reach = []
            for d, dim in enumerate(self.dims):
                far, near = (-(-max(by, 0) // dim.block) if dim.block else 0 for by in (read.most[d], -read.least[d]))
                reach.append(range(-far, near + 1))
            found += [Hop(read, by) for by in product(*reach) if any(by)]
        return found

    def _at(self, name: str, group: list[Hop], style: str, hurt: Hop | None) -> None:
        """The exchanges of a time step, after its computation."""
        lines = [name, *self._lines(group, style, hurt, "t")]
        if self.damage == "order":
            self.choice.shuffle(lines)
        if len(lines) > 1:
            self.script.attempt(f"f.order({', '.join(lines)}, at=t)")

    def _lines(self, group: list[Hop], style: str, hurt: Hop | None, at: str) -> list[str]:
        """Make exchanges; their statements in order."""
        sends, receives, waits = [], [], []
        later = {"first": (False, True), "all": (True, True)}.get(style, (False, False))
        for hop in group:
            damage = self.damage if hop is hurt else ""
            if damage == "gone":
                continue
            name = f"m{self.count}"
            self.count += 1
            if not self.script.attempt(self._xfer(name, hop, damage, later, style == "buffered", bool(at))):
                continue
            self._collapsed(name, damage)
            if damage == "reverse":
                self.script.attempt(f"{name}.{self.choice.choice(('send', 'recv'))}.reverse({self.dims[-1].iterator})")
            sends.append(f"{name}.send")
            receives.append(f"{name}.recv")
            for half, asynchronous in zip(("send", "recv"), later, strict=True):
                if asynchronous and not (damage == "wait" and self.choice.random() < 0.7):
                    wait = f"{name}_{half}_wait"
                    if self.script.attempt(f"{wait} = {name}.{half}.wait({'{t: 2}' if at else ''})"):
                        waits.append(wait)
                        self._requests(f"{name}.{half}", wait, at)
        if style == "first":
            return [*receives, *sends, *waits]
        if style == "all":
            return [*sends, *receives, *waits]
        if style == "pairs":
            return [half for pair in zip(sends, receives, strict=True) for half in pair]
        return [*sends, *receives]

    def _requests(self, half: str, wait: str, at: str) -> None:
        """Requests of the user's choice; waits that come in a later iteration."""
        if at and self.more.random() < 0.3:
            self.script.attempt(f"{wait}.shift(t, {self.more.choice((1, 1, 2))})")
        if self.more.random() < 0.4:
            indices = ["0", "i", "i % 2", "i // 2", "q"]
            indices += ["t", "t % 2", "t % 2", "t % 3", "t // 2", "0"] if at else []
            self.script.attempt(f"{half}.set_wait_access({self.more.choice(indices)})")

    def _xfer(self, name: str, hop: Hop, damage: str, later: tuple[bool, bool], buffered: bool, at: bool) -> str:
        axes = [k for k, dim in enumerate(self.dims) if dim.block]
        one, two = (self.choice.choice((-1, 1)) if damage in ("short", "apart") else 0 for _ in range(2))
        if damage == "short":
            one = two = self.choice.choice((-1, 1))
        if damage == "wide":
            one = two = 9
        send = self._halo(hop, True, one, at)
        receive = self._halo(hop, False, two, at)
        ranks = [self.dims[k].rank for k in axes]
        to = [plus(rank, hop.by[k]) for rank, k in zip(ranks, axes, strict=True)]
        source = [plus(rank, -hop.by[k]) for rank, k in zip(ranks, axes, strict=True)]
        if damage == "peer":
            chosen = self.choice.choice((to, source))
            chosen[0] = plus(ranks[0], self.choice.choice((-1, 0, 1, 2)))
        indices = ", ".join((["t"] if hop.read.source.timed else []) + [dim.iterator for dim in self.dims])
        kinds = [self.choice.choice(("", "", "tm.SYNC", "tm.ASYNC")), "tm.NONBLOCK" if later[0] else ""]
        if buffered:
            kinds = ["tm.BUFFERED", kinds[1]]
        props = ", ".join(kind for kind in kinds if kind)
        received = "tm.NONBLOCK" if later[1] else ""
        return (
            f"{name} = f.create_exchange({hop.read.source.name}[{indices}], send='{send}', to=({', '.join(to)},), "
            f"recv='{receive}', source=({', '.join(source)},), send_props=[{props}], recv_props=[{received}], "
            f"name='{name}')"
        )

    def _halo(self, hop: Hop, sends: bool, wider: int, at: bool) -> str:
        """What goes from one rank to another, as the sender or as the receiver names it."""
        read, source, reader = hop.read, hop.read.source, hop.read.reader
        conditions = [f"0 <= t < {STEPS - 1}"] if at else []
        for k, dim in enumerate(self.dims):
            i, first, last = dim.iterator, reader.low[k] + read.least[k], reader.more[k] + read.most[k]
            conditions.append(f"{source.low[k]} <= {i} < {dim.extent} + {source.more[k]}")
            conditions.append(f"{first} <= {i} < {dim.extent} + {last}")
            if not dim.block:
                continue
            b, by = dim.block, hop.by[k]
            mine = dim.rank if sends else f"({dim.rank} - {by})"
            theirs = f"({dim.rank} + {by})" if sends else dim.rank
            near, far = (wider if by > 0 else 0), (wider if by < 0 else 0)
            conditions.append(f"{b}*{mine} <= {i} < {b}*{mine} + {b}")
            conditions.append(f"{b}*{theirs} + {read.least[k] - near} <= {i} < {b}*{theirs} + {b + read.most[k] + far}")
            conditions.append(f"0 <= {theirs} and {b}*{theirs} < {dim.extent} + {reader.more[k]}")
            conditions.append(f"{reader.low[k]} < {b}*{theirs} + {b}")
        dims = [*(["t"] if at else []), *(dim.rank for dim in self.dims if dim.block)]
        names = ", ".join([*dims, *(dim.iterator for dim in self.dims)])
        return f"[{', '.join(self.params)}] -> {{ [{names}] : {' and '.join(conditions)} }}"

    def _collapsed(self, name: str, damage: str) -> None:
        inner = [dim.iterator for dim in self.dims]
        chosen = [inner[self.choice.randint(0, len(inner)) :] if self.choice.random() < 0.5 else inner] * 2
        if damage == "collapse":
            chosen = [inner, []] if self.choice.random() < 0.5 else [[], inner]
        for half, loops in zip(("send", "recv"), chosen, strict=True):
            if loops:
                self.script.attempt(f"{name}.{half}.collapse_many({', '.join(loops)})")


def random_rank_script(seed: int) -> Script:
    """A random program with exchanges by hand; the same for the same seed."""
    return RankScripts(random.Random(seed)).written()


def random_derived_script(seed: int) -> Script:
    """A random program whose transfers are derived."""
    return RankScripts(random.Random(seed), damaged=False).written(derived=True)
