"""Random GPU programs: a random algorithm, kernels, transfers and waits, some of them missing or wrong."""

from __future__ import annotations

import random

from tests.oracle.generators.random_algorithms import ITERATORS, NEW_COPY, PARAMS, Algorithms, Source
from tests.oracle.generators.random_programs import Commands
from tests.oracle.generators.script import Script, Seed, choices
from tiramisu_py.program.loops import GpuBlock
from tiramisu_py.program.statement import Role, Statement

#: Commands of the host that come before kernels are made.
_BEFORE = ("split", "interchange", "order", "fused", "shift", "separate", "inline", "reverse", "compute_at", "sliding")


class GpuAlgorithms(Algorithms):
    """Fewer recurrences, which few kernels can run."""

    def _computation(self, name: str) -> None:
        kind = self.choice.choice(("map", "map", "map", "map", "select", "reduction", "reduction", "recurrence"))
        getattr(self, f"_{kind}")(name, self.choice.randint(1, self.rank))


class GpuCommands(Commands):
    """Puts a random program on GPUs; commands that are refused leave no line."""

    def __init__(self, choice: random.Random, script: Script, sources: list[Source]) -> None:
        super().__init__(choice, script)
        self.sources = {source.name: source for source in sources}
        self.made: list[str] = []

    def written(self) -> Script:
        """Loops, kernels, shared memory, communication, and then now and then something that breaks it."""
        for _ in range(self.choice.choice((0, 0, 0, 0, 1, 2))):
            self._attempt(self._line(self.choice.choice(_BEFORE)))
        if self.choice.random() < 0.35:
            self._in_shared_memory()
        for statement in self._own():
            if self.choice.random() < 0.85:
                self._kernel(statement)
        if self.choice.random() < 0.2:
            self._cached()
        if self.choice.random() < 0.1:
            self._elsewhere()
        if self.choice.random() < 0.7:
            self._attempt("f.derive_transfers()")
        else:
            self._by_hand()
        for _ in range(self.choice.choice((0, 0, 0, 1, 2))):
            self._disturbed()
        return self.script

    def _attempt(self, line: str) -> bool:
        return bool(line) and self.script.attempt(line)

    def _name(self, name: str) -> str:
        algorithm = self.script.program.algorithm
        if name in self.script.names or name in algorithm.inputs or name in algorithm.computations:
            return super()._name(name)
        return f"tm.Transfer(f, '', '{name}')"

    def _own(self) -> list[Statement]:
        """The statements that compute something."""
        return [s for s in self.script.program.storing if s.role is not Role.COPY and self._is_known(s)]

    def _is_known(self, statement: Statement) -> bool:
        known = self.script.names
        return statement.name in known or (not statement.origin.part_of and statement.source in known)

    def _line(self, kind: str) -> str:
        statement = self.choice.choice(self._own())
        try:
            text: str = getattr(self, f"_{kind}")(statement, self._handle(statement))
        except (IndexError, StopIteration):
            return ""  # nothing to choose from
        return text

    def _other(self, statement: Statement) -> Statement:
        return self.choice.choice([s for s in self._own() if s is not statement])

    def _some(self, probability: float, text: str) -> str:
        return text if self.choice.random() < probability else ""

    # -- kernels

    def _options(self) -> str:
        stream = self._some(0.25, f", stream={self.choice.choice((1, 2))}")
        device = self._some(0.06, ", device=1")
        return stream + device + self._some(0.3, ", barriers=False") + self._some(0.05, ", grid=2")

    def _kernel(self, statement: Statement) -> None:
        """Blocks and threads of a statement's loops, the innermost split; sometimes outer loops stay on the host."""
        name = statement.name
        if name not in self.script.program.statements or any(
            self.script.program.loops[loop].is_gpu for loop in self.script.program.statements[name].loops
        ):
            return
        handle = self._handle(statement)
        loops = list(self.script.program.loop_names(statement))
        outer, inner = next(self.fresh, None), next(self.fresh, None)
        if outer is None or inner is None or not loops:
            return
        alone = statement.role is Role.UPDATE and self.choice.random() < 0.6
        if alone:  # the loops over terms run inside each thread
            loops = loops[: len(self.script.program.algorithm.computations[statement.source].iterators)]
        at = self.choice.choice((len(loops) - 1, len(loops) - 1, 0))
        size = self.choice.choice((2, 3))
        if self.choice.random() < 0.9 and self._attempt(f"{handle}.split({loops[at]}, {size}, {outer}, {inner})"):
            loops[at : at + 1] = [outer, inner]
        often = 0.7 if statement.role is Role.UPDATE and not alone else 0.03
        combine = self._some(often, ", combine=tm." + self.choice.choice(("ATOMIC", "TREE")))
        first = self.choice.choice((0, 0, 0, 1)) if len(loops) > 1 else 0
        last = self.choice.choice((len(loops) - 1, len(loops) - 1, len(loops)))
        cut = self.choice.randint(first + 1, max(first + 1, last))
        if inner in loops and self.choice.random() < 0.8:
            first, cut = min(first, loops.index(inner) - 1), loops.index(inner)
        blocks, threads = loops[first:cut], loops[cut : cut + self.choice.choice((1, 1, 1, 1, 1, 1, 3))]
        if inner not in threads and self.choice.random() < 0.9:
            threads = []
        if threads and self.choice.random() < 0.2:
            threads = threads[1:]
        listed = f"blocks=[{', '.join(blocks)}]" + (f", threads=[{', '.join(threads)}]" if threads else "")
        self._attempt(f"{handle}.tag_gpu({listed}{self._options()}{combine})")

    def _in_shared_memory(self) -> None:
        """A producer in shared memory, once for each block of its reader."""
        try:
            name, reader = self._producer_and_reader()
        except IndexError:
            return
        new = [next(self.fresh, "") for _ in range(4)]
        loops = self.script.program.loop_names(reader)
        if "" in new or not loops:
            return
        text, size = self._handle(reader), self.choice.choice((2, 3))
        if len(loops) > 1 and self._attempt(f"{text}.tile({loops[0]}, {loops[1]}, 2, {size}, {', '.join(new)})"):
            blocks, threads = new[:2], new[2:]
        elif self._attempt(f"{text}.split({loops[0]}, {size}, {new[0]}, {new[1]})"):
            blocks, threads = new[:1], new[1:2]
        else:
            return
        if self.choice.random() < 0.95:
            self._attempt(f"{self._name(name)}.store_in(tm.SHARED)")
        outer = blocks[-1]
        self._attempt(f"{self._name(name)}.compute_at({text}, {outer})")
        if self.choice.random() < 0.15:
            threads = threads[1:]
        listed = f"blocks=[{', '.join(blocks)}], threads=[{', '.join(threads)}]"
        self._attempt(f"{text}.tag_gpu({listed}{self._options()})")
        own = self.script.program.statements_of(name)
        for statement in own:
            inside = self.script.program.loop_names(statement)[len(blocks) :]
            iterators = self.script.program.algorithm.computations[name].iterators
            chosen = [loop for loop in inside if loop in iterators]
            if chosen and self.choice.random() < 0.9:
                self._attempt(f"{self._handle(statement)}.tag_gpu(threads=[{', '.join(chosen)}])")
        if own and self.choice.random() < 0.4:
            self._attempt(f"f.barrier({self._handle(own[-1])}, {text}, at={outer})")

    def _cached(self) -> None:
        """What a kernel reads, copied to shared memory or registers at one of its loops."""
        program = self.script.program
        tagged = [s for s in self._own() if program.kernel_of(s) is not None]
        if not tagged:
            return
        statement = self.choice.choice(tagged)
        read = [n for n in program.storages if any(n == s for s in self._sources_of(statement))]
        if not read:
            return
        source = self.choice.choice(read)
        rank = len(self._iterators_of(source))
        name = f"{source}_{statement.name}_tile"
        options = self._some(0.3, ", pad=1") + self._some(0.3, ", deferred=True") + self._some(0.2, ", buffers=2")
        into, options = ("tm.SHARED", options) if self.choice.random() < 0.8 else ("tm.REGISTER", "")
        iterators = ", ".join(NEW_COPY[:rank])
        level = self._loop(statement)
        handle = self._handle(statement)
        self._attempt(
            f"{name} = {handle}.copy({self._name(source)}, [{iterators}], at={level}, into={into}, "
            f"name='{name}'{options})"
        )

    def _sources_of(self, statement: Statement) -> list[str]:
        algorithm = self.script.program.algorithm
        names = [*algorithm.inputs, *algorithm.computations]
        return [name for name in names if f"{name}[" in str(statement.body)]

    def _iterators_of(self, source: str) -> tuple[str, ...]:
        algorithm = self.script.program.algorithm
        if source in algorithm.inputs:
            return ITERATORS[: len(algorithm.inputs[source].shape)]
        return tuple(algorithm.computations[source].iterators)

    def _elsewhere(self) -> None:
        name = self.choice.choice(self._computations())
        memory = self.choice.choice(("HOST_MAPPED", "PINNED", "GPU_MEMORY"))
        self._attempt(f"{self._name(name)}.store_in(tm.{memory})")

    # -- communication

    def _by_hand(self) -> None:
        """Inputs up and outputs down; values that cross are sometimes forgotten, and so are waits."""
        algorithm = self.script.program.algorithm
        for name in [*algorithm.inputs, *algorithm.computations]:
            if name in algorithm.inputs and self.choice.random() < 0.9:
                self._transfer(name, "CPU2GPU")
            elif name in algorithm.outputs and self.choice.random() < 0.9:
                self._transfer(name, "GPU2CPU")
            elif self.choice.random() < 0.25:
                self._transfer(name, self.choice.choice(("CPU2GPU", "GPU2CPU", "GPU2GPU")))

    def _domain(self, source: Source) -> str:
        low, more = list(source.low), list(source.more)
        if self.choice.random() < 0.1:
            at = self.choice.randrange(len(low))
            low[at], more[at] = low[at] + self.choice.choice((0, 1)), more[at] - self.choice.choice((0, 1))
        return ", ".join(f"{ITERATORS[d]}: ({low[d]}, {PARAMS[d]} + {more[d]})" for d in range(len(low)))

    def _transfer(self, source: str, direction: str) -> None:
        declared = self.sources.get(source)
        if declared is None:
            return
        name = f"t{len(self.made)}"
        mode = self.choice.choice(("tm.SYNC", "tm.ASYNC"))
        stream = self._some(0.3, f", stream={self.choice.choice((1, 2))}")
        devices = ", to_device=1" if direction == "GPU2GPU" else self._some(0.03, ", device=1")
        indices = ", ".join(ITERATORS[: declared.rank])
        what = f"{{{self._domain(declared)}}}, {source}[{indices}], tm.{direction}, {mode}"
        line = f"{name} = f.create_xfer({what}{stream}{devices}, name='{name}')"
        if not self._attempt(line):
            return
        self.made.append(name)
        bulk = ITERATORS[: declared.rank] if self.choice.random() < 0.7 else ITERATORS[1 : declared.rank]
        if bulk:
            self._attempt(f"{name}.collapse_many({', '.join(bulk)})")
        if mode == "tm.ASYNC" and self.choice.random() < 0.8:
            self._wait(name, on_host=self.choice.random() < 0.6)

    def _wait(self, awaited: str, on_host: bool) -> None:
        name = f"w{len(self.made)}_{self.choice.randrange(1000)}"
        on = "" if on_host else f"on={self.choice.choice((0, 0, 1, 2))}"
        if not self._attempt(f"{name} = {self._name(awaited)}.wait({on})"):
            return
        others = [self._handle(s) for s in self._own()]
        if others and self.choice.random() < 0.5:
            self._attempt(f"f.order({name}, {self.choice.choice(others)}, at=tm.root)")

    def _disturbed(self) -> None:
        """One thing taken away, added or moved."""
        program = self.script.program
        kind = self.choice.choice(("remove", "remove", "remove", "wait", "transfer", "order", "move"))
        idle = [
            s.name
            for s in program.statements.values()
            if s.link.transfer is not None or s.role in (Role.WAIT, Role.BARRIER)
        ]
        if kind == "remove" and idle:
            gone = self.choice.choice(idle)
            self._attempt(f"f.remove({self._name(gone)})")
        elif kind == "wait":
            self._wait(self.choice.choice(self._own()).name, self.choice.random() < 0.5)
        elif kind == "transfer":
            self._transfer(self.choice.choice(list(self.sources)), self.choice.choice(("CPU2GPU", "GPU2CPU")))
        elif kind == "order":
            self._attempt(self._line("order"))
        else:
            tagged = [s for s in self._own() if program.kernel_of(s) is not None]
            if tagged:
                statement = self.choice.choice(tagged)
                blocks = [program.loops[x].name for x in statement.loops if isinstance(program.loops[x].tag, GpuBlock)]
                where = self.choice.choice(("stream=1", "stream=2", "device=1", "barriers=False"))
                self._attempt(f"{self._handle(statement)}.tag_gpu(blocks=[{', '.join(blocks)}], {where})")


def random_gpu_script(seed: Seed) -> Script:
    """A random algorithm on GPUs; the same for the same seed."""
    choice = choices(seed)
    algorithms = GpuAlgorithms(choice)
    script = algorithms.written()
    return GpuCommands(choice, script, algorithms.sources).written()
