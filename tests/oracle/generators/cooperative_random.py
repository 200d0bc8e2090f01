"""Random cooperative programs: a random algorithm in parts on GPUs and cores, its copies derived; then damaged."""

from __future__ import annotations

from itertools import pairwise

import tiramisu_py as tm
from tests.oracle.generators.gpu_random import _BEFORE, GpuAlgorithms, GpuCommands
from tests.oracle.generators.random_algorithms import ITERATORS, NEW_COPY, NEW_LOOPS, PARAMS
from tests.oracle.generators.script import Script, Seed, choices, replayed
from tiramisu_py.program.statement import Statement

#: The names of the points at which loops are cut, which are parameters.
POINTS = ("G", "H")
STEPS = 3
#: Names of the loops that `partition` makes.
TILED = tuple(f"{loop}_{kind}" for loop in (*ITERATORS, "t", "k", "x0", "x1") for kind in ("block", "thread"))
_RANGES = ("[(0, G), (G, N)]", "[(0, G), (G, N + 2)]", "[(G, N), (0, G)]", "[(0, H), (G, N)]")
#: What is changed in one line of what was derived.
_EDITS = (
    ("tm.ASYNC", "tm.SYNC"), ("stream=1", "stream=0"), ("stream=1", "stream=2"), ("stream=2", "stream=0"),
    ("on=0", "on=1"), ("on=2", "on=0"), ("on=0, ", ""), ("wait(name", "wait(on=0, name"),
    (" 0 <= ", " 1 <= "), ("0 < ", "1 < "), ("<= N", "< N"), ("< H", "<= H"), ("<= j", "< j"), ("< M", "<= M"),
    ("G <= i", "G < i"), ("H <= i", "H < i"), ("i < G", "i <= G"), ("< G", "<= G"), ("device=1", "device=0"),
    ("< R", "<= R"), ("<= R", "< R"), ("r = ", "r = 1 + "), ("0 <= r", "1 <= r"), ("r < H", "r <= H"),
)  # fmt: skip


class CooperativeAlgorithms(GpuAlgorithms):
    """Algorithms whose functions have two more parameters; now and then a loop over steps of time."""

    def written(self) -> Script:
        """A script with one or two inputs and one to three computations."""
        sizes = PARAMS[: self.rank]
        least = [f"{name} >= {self.choice.choice((0, 0, 1, 2))}" for name in sizes]
        order = self.choice.choice(("0 <= G and G <= H and H <= N",) * 3 + ("0 <= G and 0 <= H", "G <= H"))
        names = " ".join([*sizes, *POINTS])
        self.script.do(f"{', '.join([*sizes, *POINTS])} = tm.params('{names}')")
        self.script.do("i, j, k, t = tm.iters('i j k t')")
        self.script.do(f"{', '.join(NEW_LOOPS)} = tm.iters('{' '.join(NEW_LOOPS)}')")
        self.script.do("u, v, w, i_chunk, j_chunk = tm.iters('u v w i_chunk j_chunk')")
        self.script.do(f"{', '.join(TILED)} = tm.iters('{' '.join(TILED)}')")
        self.script.do(f"{', '.join(NEW_COPY)} = tm.iters('{' '.join(NEW_COPY)}')")
        assumed = " and ".join([*least, order])
        self.script.do(f"f = tm.Function('f', params=[{', '.join([*sizes, *POINTS])}], assume='{assumed}')")
        for name in ("a", "b")[: self.choice.choice((1, 1, 2))]:
            self._input(name)
        if self.choice.random() < 0.25:
            self._steps()
        else:
            count = self.choice.choice((1, 2, 2, 3))
            for name in "pqr"[:count]:
                self._computation(name)
            self._outputs(count)
        self.script.declared()
        return self.script

    def _computation(self, name: str) -> None:
        kind = self.choice.choice(("map",) * 8 + ("select", "select", "reduction", "reduction", "recurrence"))
        rank = self.rank if self.choice.random() < 0.7 else 1
        getattr(self, f"_{kind}")(name, rank)

    def _steps(self) -> None:
        """Steps of time over the elements of the first input."""
        a, back, on = self.sources[0], self.choice.choice((0, 1, 1, 2)), self.choice.choice((0, 1, 1, 2))
        axes = range(a.rank)
        here = ", ".join(ITERATORS[d] for d in axes)
        left, right = (", ".join([f"i + {by}", *ITERATORS[1 : a.rank]]) for by in (-back, on))
        edge = f"(t == 0) | (i < {back}) | (i >= N + {a.more[0] - on})"
        expr = f"tm.select({edge}, a[{here}], p[t - 1, {left}] + p[t - 1, {right}])"
        domain = ", ".join(["t: " + str(STEPS), *(f"{ITERATORS[d]}: {PARAMS[d]} + {a.more[d]}" for d in axes)])
        self.script.do(f"p = f.computation('p', {{{domain}}}, lambda p: {expr})")
        self.script.do(f"f.outputs({self.choice.choice((f'p[{STEPS - 1}, {here}]', f'p[{STEPS - 1}, {here}]', 'p'))})")


class CooperativeCommands(GpuCommands):
    """Parts on GPUs and cores, and the copies between them."""

    def written(self) -> Script:
        """Loops, parts, memories, derived copies, and then now and then something that breaks it."""
        for _ in range(self.choice.choice((0, 0, 0, 0, 1, 2))):
            self._attempt(self._line(self.choice.choice(_BEFORE)))
        self._folded()
        self._parted()
        for statement in self._own():
            if self.choice.random() < 0.05:
                self._kernel(statement)
        if self.choice.random() < 0.1:
            self._cached()
        if self.choice.random() < 0.2:
            self._elsewhere()
        self._derived()
        if self.choice.random() < 0.45:
            self._damaged()
        for _ in range(self.choice.choice((0, 0, 0, 0, 0, 1, 2))):
            self._disturbed()
        return self.script

    def _is_known(self, statement: Statement) -> bool:
        return True

    def _handle(self, statement: Statement) -> str:
        if statement.origin.part_of or statement.source not in self.script.names:
            return f"f['{statement.name}']"
        return super()._handle(statement)

    def _name(self, name: str) -> str:
        return f"f['{name}']" if name in self.script.program.statements else super()._name(name)

    def _folded(self) -> None:
        for name in self._computations():
            if self.choice.random() < 0.12:
                iterators = ", ".join(self._iterators_of(name))
                self._attempt(f"{self._name(name)}.store_in([{iterators.replace('t', 't % 2')}])")
                self._attempt(self._store_in(self.script.program.storing[0], ""))

    def _parted(self) -> None:
        """All computations alike, or each in its own way; some not at all."""
        alike = self._cut() if self.choice.random() < 0.7 else ""
        for name in dict.fromkeys(s.source for s in self._own()):
            if self.choice.random() < 0.12:
                continue
            level = self._iterators_of(name)[0]
            if level == "t":
                level = "i"
            elif self.choice.random() < 0.1:
                level = self._iterators_of(name)[-1]
            handle = self._name(name)
            if self.choice.random() < 0.05:
                level = self._loop(self.script.program.statements_of(name)[-1])
            made = self._attempt(f"{handle}.partition({level}, {alike or self._cut()})")
            if made and self.choice.random() < 0.3:
                self._together(name)

    def _together(self, name: str) -> None:
        """The parts in one loop of time."""
        parts = self.script.program.statements_of(name)
        loops = self.script.program.loop_names(parts[0])
        if len(parts) > 1 and "t" in loops:
            for before, after in pairwise(parts):
                self._attempt(f"{self._handle(after)}.after({self._handle(before)}, t)")

    def _point(self) -> str:
        return self.choice.choice(("G", "G", "G", "H", "1", "2", "N - 1", "N // 2", "G + 1", "N - G"))

    def _cut(self) -> str:
        """Where to cut, and the targets."""
        kind = self.choice.choice(("point", "point", "points", "points", "shares", "ranges", "one"))
        if kind == "points":
            where = self.choice.choice(("[G, H]", "[G, H]", "[G, H]", "[H, G]", "[G // 2, G]", "[1, G]", "[G, G]"))
            return f"{where}, [{', '.join(self._target() for _ in range(3))}]"
        where = {
            "point": f"[{self._point()}]",
            "shares": f"tm.shares({self.choice.choice(('1, 1', '3, 1', '0, 1', '1, 2'))})",
            "ranges": self.choice.choice(_RANGES),
            "one": "[]",
        }[kind]  # fmt: skip
        count = 1 if kind == "one" else 2
        return f"{where}, [{', '.join(self._target() for _ in range(count))}]"

    def _target(self) -> str:
        if self.choice.random() < 0.35:
            return self.choice.choice(("tm.cores()", "tm.cores()", "tm.cores(2)", "tm.cores(parallel=False)"))
        tile = self.choice.choice(("tile=2", "tile=(2, 2)", "tile=(1, 3)", "tile=2"))
        chunk = self._some(0.25, f", chunk={self.choice.choice((1, 2, 3))}")
        stream = self._some(0.15, ", stream=1")
        return f"tm.gpu({self.choice.choice((0, 0, 0, 1))}, {tile}{chunk}{stream})"

    def _derived(self) -> None:
        program = self.script.program
        chunks = [name for partition in program.targets.partitions for name in partition.chunks if name is not None]
        how = self.choice.choice(("", "", "overlap=True", "overlap=True", "pipeline"))
        if how == "pipeline":
            names = {program.loops[loop].name for s in program.storing for loop in s.loops} & {*chunks, "t", "i", "x0"}
            how = f"pipeline={self.choice.choice(sorted(names))}" if names else "overlap=True"
        self._attempt(f"f.derive_transfers({how})")

    # -- damage

    def _damaged(self) -> None:
        """What is derived, written by hand, with one edit."""
        if not self.script.lines[-1].startswith("f.derive_transfers("):
            return
        try:
            commands = self.script.function.derived()
        except tm.CommandError:
            return  # some waits are none of a command
        self.script = replayed(self.script.lines[:-1], self.script.declarations)
        if self.choice.random() < 0.9:
            self._edit(commands)
        for line in commands:
            try:
                self.script.attempt(line)
            except (tm.DeclarationError, NameError):
                continue  # it names what is gone

    def _edit(self, commands: list[str]) -> None:
        """One line gone, or changed."""
        kinds = ("create_xfer", "create_xfer", "collapse", ".wait(", ".wait(", ".wait(", "f.order")
        kind = self.choice.choice(kinds)
        chosen = [at for at, line in enumerate(commands) if kind in line]
        if not chosen:
            return
        at = self.choice.choice(chosen)
        if kind in ("collapse", "f.order") or self.choice.random() < 0.35:
            del commands[at]
            return
        line = commands[at]
        edits = [line.replace(old, new, 1) for old, new in _EDITS if old in line]
        if "CPU2GPU" in line and "mode=" not in line:
            edits.append(line.replace("name=", "mode=tm.ASYNC, name=", 1))
        if ".wait(" in line:
            edits.append(line.replace("name=", "on=2, name=", 1))
        edits = [edit for edit in edits if edit != line and edit.count("on=") < 2]
        if edits:
            commands[at] = self.choice.choice(edits)


def random_cooperative_script(seed: Seed) -> Script:
    """A random algorithm on GPUs and cores; the same for the same seed."""
    choice = choices(seed)
    algorithms = CooperativeAlgorithms(choice)
    script = algorithms.written()
    return CooperativeCommands(choice, script, algorithms.sources).written()
