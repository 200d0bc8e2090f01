"""Every command of the public interface, with random arguments, legal or not.

`COMMANDS` says for each which writers give it; a test compares it with the reference, so that a new command is drawn
as soon as it is there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.oracle.generators.cpu_random import OTHERS, OWN_WEIGHTS, CpuCommands
from tests.oracle.generators.random_algorithms import NEW_COPY
from tests.oracle.generators.script import Script
from tiramisu_py.algorithm.traversal import accesses
from tiramisu_py.program.statement import Role, Statement

#: Commands of all handles and of the function, and the writers that give them.
COMMANDS = {
    "split": ("split",), "tile": ("tile",), "coalesce": ("coalesce",), "interchange": ("interchange",),
    "reorder": ("reorder",), "shift": ("shift",), "skew": ("skew", "skews"), "transform": ("transform",),
    "reverse": ("reverse",), "parallelize": ("parallelize", "shares"), "vectorize": ("vectorize", "lanes"),
    "unroll": ("unroll", "versions_of_tiles"), "unroll_and_jam": ("jam",), "rfactor": ("factored",),
    "skew_for": ("banded", "all_banded"), "band": ("band",), "after": ("order", "fused", "then"),
    "before": ("order", "between"), "fuse": ("fused", "order"), "store_in": ("store_in", "register"),
    "store_at": ("store_at",), "slide": ("ring", "rings", "slide", "window"), "fold": ("fold",), "place": ("place",),
    "store_nontemporal": ("streamed",), "prefetch": ("prefetched",), "copy": ("cache", "pack", "gpu_copy"),
    "partition": ("partition",), "time_tile": ("time_tile",), "separate_cases": ("cases",),
    "separate_at": ("separate",), "get_update": ("one_part",), "compute_at": ("compute_at", "overlapped"),
    "reverse_compute_at": ("ends",), "inline": ("inline",), "set_schedule": ("set_schedule",),
    "order": ("ordered",), "schedule": ("together",), "specialize": ("special", "special_case"), "undo": ("undo",),
    "apply": ("again",), "remove": ("remove",), "auto_schedule": ("automatic",), "keep": ("keep",),
    "tag_gpu": ("kernel", "tree"), "gpu_tile": ("gpu_tile",), "coarsen": ("coarsen",), "barrier": ("barrier",),
    "wait": ("waits",), "create_xfer": ("transfer",),
    "derive_transfers": ("derive",), "gpu_target": ("gpu_target",), "tag_distribute": ("ranks",),
    "distribute_array": ("distribute",), "grid": ("grid",), "collapse_many": ("collapse",),
    "set_wait_access": ("requests",), "tensorize": ("tensorized",),
}  # fmt: skip
#: What the algorithms of this generator, or of the others, declare.
DECLARED = {
    "input": "every algorithm", "computation": "every algorithm", "reduction": "every algorithm",
    "scatter": "of values", "scan": "prefixes", "outputs": "every algorithm", "together": "the kind `groups`",
    "stage": "the kind `stages`", "scalar": "conditions of `special_case`", "reshape": "views of inputs",
    "blocks": "the kind `ranked`", "create_exchange": "the kind `ranks`",
}  # fmt: skip
#: What no generator draws, with the tests that try it in its own cases.
ELSEWHERE = {
    "segments": "tests/schedule/test_segments.py", "inverse": "tests/schedule/test_gather.py",
    "gather": "tests/schedule/test_gather.py", "array": "tests/language", "compact": "tests/schedule/test_compact.py",
    "reassociate": "tests/schedule/test_reassociate.py", "sum_first": "tests/schedule/test_sum_first.py",
    "accumulate": "tests/schedule/test_accumulate.py", "in_runs": "tests/schedule/test_in_runs.py",
    "pipeline": "tests/schedule/devices/test_pipeline.py", "offload": "tests/schedule/storage/test_offload.py",
    "replicate": "tests/schedule/locality/test_replicate.py", "fetch": "tests/schedule/locality/test_fetch.py",
    "recompute": "tests/schedule/test_recompute.py", "align": "tests/schedule/devices/test_align_lines.py",
}  # fmt: skip
#: Members that change no schedule: they ask, write, run, or name.
ASKED = frozenset((
    "algorithm", "certificate", "check", "commands", "compile", "all_or_nothing", "completed", "cost", "derived",
    "domains", "dtype", "evaluate", "init", "name", "of", "part", "process_grid", "program", "recv", "save", "send",
    "show", "simulate", "source", "statement_names", "update", "validate",
))  # fmt: skip
#: How often writers come that other generators do not have, on cores.
_WEIGHTS = {
    "shares": 2, "all_banded": 1, "band": 1, "then": 1, "between": 1, "place": 1, "pack": 2, "partition": 2,
    "time_tile": 1, "cases": 2, "one_part": 1, "ordered": 2, "together": 2, "special_case": 1, "undo": 1, "again": 1,
    "remove": 1, "automatic": 1, "keep": 1, "tensorized": 1,
}  # fmt: skip
#: Those of GPUs and ranks; on other targets they come seldom, and most often are refused.
_OF_GPUS = {
    "kernel": 10, "tree": 8, "gpu_tile": 4, "coarsen": 2, "gpu_copy": 4, "barrier": 1, "waits": 2, "transfer": 3,
    "derive": 3, "gpu_target": 1, "collapse": 1,
}  # fmt: skip
_OF_RANKS = {"ranks": 6, "distribute": 4, "grid": 1, "derive": 4, "waits": 1, "collapse": 1, "requests": 1}
WEIGHTS = {**OTHERS, **OWN_WEIGHTS, **_WEIGHTS}


class EveryCommand(CpuCommands):
    """Gives commands to a random program, most of them those of its target."""

    def __init__(self, choice: random.Random, script: Script, target: str) -> None:
        super().__init__(choice, script)
        own = {"gpu": _OF_GPUS, "ranks": _OF_RANKS}.get(target, {})
        seldom = dict.fromkeys({**_OF_GPUS, **_OF_RANKS}, 1) if choice.random() < 0.03 else {}
        weights = {**WEIGHTS, **seldom, **{kind: 3 * weight for kind, weight in own.items()}}
        if own:
            weights = {kind: weight for kind, weight in weights.items() if kind not in ("automatic", "keep", "special")}
        self.kinds = [kind for kind, weight in weights.items() for _ in range(weight)]

    def write(self, count: int) -> Script:
        """At most `count` commands; refused ones leave no line, and what is no command of a handle neither."""
        for _ in range(count):
            try:
                line = self._line(self.choice.choice(self.kinds))
                if line:
                    self.attempt(line)
            except AttributeError as error:
                if "object has no attribute" not in str(error):
                    raise
        return self.script

    def attempt(self, line: str) -> bool:
        """Execute a command; whether it was accepted."""
        return self.script.attempt(line)

    def _any(self) -> tuple[Statement, str]:
        statement = self.choice.choice(list(self.script.program.statements.values()))
        return statement, self._handle(statement)

    def _level(self, statement: Statement) -> str:
        return self._loop(statement) if self.choice.random() < 0.85 else "tm.root"

    def _read_by(self, statement: Statement) -> str:
        program = self.script.program
        return self.choice.choice([a.source for a in accesses(statement.body) if a.source in program.storages])

    def _new_iterators(self, source: str) -> list[str]:
        """Names for the dimensions of a copy, as many as there are."""
        algorithm = self.script.program.algorithm
        computation = algorithm.computations.get(source)
        rank = len(algorithm.inputs[source].shape) if computation is None else len(computation.iterators)
        return [*NEW_COPY, "u", "v"][:rank]

    # -- loops and their order

    def _shares(self, statement: Statement, handle: str) -> str:
        options = self.choice.choice(
            (
                ", schedule='dynamic'",
                ", schedule='guided', chunk=2",
                ", schedule='static', chunk=1",
                ", combine=tm.TREE",
            )
        )
        both = [self._loop(statement)]
        loops = self.script.program.loop_names(statement)
        if len(loops) > 1 and self.choice.random() < 0.3:
            both = list(loops[:2])
        return f"{handle}.parallelize({', '.join(both)}{options})"

    def _all_banded(self, statement: Statement, handle: str) -> str:
        loops = self.script.program.loop_names(statement)
        return f"f.skew_for(tm.{self.choice.choice(('LOCALITY', 'PARALLEL'))}, {', '.join(loops[:2])})"

    def _band(self, statement: Statement, handle: str) -> str:
        return f"{handle}.band({self._loop(statement) if self.choice.random() < 0.5 else ''})"

    def _then(self, statement: Statement, handle: str) -> str:
        other = self._other(statement)
        return f"{self._handle(other)}.after({handle}, {self._level(other)})"

    def _between(self, statement: Statement, handle: str) -> str:
        first, second = self._other(statement), self._other(statement)
        return (
            f"with f.all_or_nothing(): {handle}.after({self._handle(first)}, {self._level(first)})"
            f".before({self._handle(second)}, {self._level(second)})"
        )

    def _ordered(self, statement: Statement, handle: str) -> str:
        chosen = [self._any() for _ in range(self.choice.choice((2, 2, 3)))]
        return f"f.order({', '.join(text for _, text in chosen)}, at={self._level(chosen[0][0])})"

    def _together(self, statement: Statement, handle: str) -> str:
        """One command for several computations."""
        other, loop = self._other(statement), self._loop(statement)
        command = self.choice.choice(
            (f"parallelize({loop})", f"reverse({loop})", f"shift({loop}, 1)", f"unroll({loop}, 2)",
             f"vectorize({loop}, 4)",
             f"split({loop}, 2, {next(self.fresh)}, {next(self.fresh)})", "store_in(tm.REGISTER)")
        )  # fmt: skip
        return f"f.schedule({handle}, {self._handle(other)}).{command}"

    def _time_tile(self, statement: Statement, handle: str) -> str:
        first, *others = self.script.program.loop_names(statement)
        tiles = f"{{{self.choice.choice(others)}: {self.choice.choice((2, 3))}}}"
        return f"{self._name(statement.source)}.time_tile({first}, {self.choice.choice((1, 2, 3))}, {tiles})"

    def _set_schedule(self, statement: Statement, handle: str) -> str:
        """Any order of any subset of the loops, with steps, blocks and differences."""
        dims = [f"d{n}" for n in range(len(statement.dims))]
        out = [*dims]
        self.choice.shuffle(out)
        if out and self.choice.random() < 0.5:
            at = self.choice.randrange(len(out))
            x, y = out[at], self.choice.choice(dims)
            out[at : at + 1] = self.choice.choice(
                ([f"-{x}"], [f"floor({x}/2)", x], [f"floor({x}/2)", f"{x} mod 2"], [f"{x} + {y}"], [], [f"2{x}"])
            )
        names = ("u", "v", "w", "wave", "y0", "y1")
        listed = ", ".join(f"{name} = {each}" for name, each in zip(names, out, strict=False))
        return f"{handle}.set_schedule('{{ [{', '.join(dims)}] -> [{listed}] }}')"

    # -- parts

    def _cases(self, statement: Statement, handle: str) -> str:
        return f"{handle}.separate_cases({self._loop(statement) if self.choice.random() < 0.4 else ''})"

    def _one_part(self, statement: Statement, handle: str) -> str:
        name = self._name(statement.source)
        return f"{name}.get_update({self.choice.choice((0, 0, 1))}).unroll({self._loop(statement)}, 2)"

    def _partition(self, statement: Statement, handle: str) -> str:
        size = self.choice.choice(self.script.program.algorithm.params)
        where = self.choice.choice(("[1]", "[2]", f"[{size} - 1]", "tm.shares(1, 1)", "tm.shares(3, 1)", "[]"))
        count = 1 if where == "[]" else 2
        targets = ("tm.cores()", "tm.cores()", "tm.cores(vector=4)", "tm.cores(parallel=False)", "tm.gpu(tile=2)")
        listed = ", ".join(self.choice.choice(targets) for _ in range(count))
        return f"{self._name(statement.source)}.partition({self._loop(statement)}, {where}, [{listed}])"

    # -- places

    def _store_in(self, statement: Statement, handle: str) -> str:
        """Another layout: folded, turned, joined; or the buffer of another computation."""
        name, program = self.choice.choice(self._computations()), self.script.program
        iterators = program.algorithm.computations[name].iterators
        if len(iterators) in (1, 2) and {*iterators} <= {"i", "j"}:
            return super()._store_in(statement, handle)
        if not iterators:
            return f"{self._name(name)}.store_in(tm.REGISTER)"
        forms: list[str] = [*iterators]
        self.choice.shuffle(forms)
        at = self.choice.randrange(len(forms))
        x = forms[at]
        forms[at : at + 1] = self.choice.choice(([f"{x} % 2"], [f"{x} // 2", f"{x} % 2"], [x], ["0"], []))
        return f"{self._name(name)}.store_in([{', '.join(forms)}])"

    def _place(self, statement: Statement, handle: str) -> str:
        policy = self.choice.choice(("local", "interleave"))
        return f"{self._name(self.choice.choice(self._computations()))}.place('{policy}')"

    def _cache(self, statement: Statement, handle: str) -> str:
        source = self._read_by(statement)
        named, iterators = f"{source}_{statement.name}_cache", self._new_iterators(source)
        extra = self.choice.choice(("", "", ", into=tm.REGISTER"))
        level = self._level(statement)
        if len(iterators) > 1 and self.choice.random() < 0.3:
            extra += f", layout=[{', '.join(reversed(iterators))}]"
        return (
            f"{named} = {handle}.copy({self._name(source)}, [{', '.join(iterators)}], at={level}, "
            f"name='{named}'{extra})"
        )

    def _window(self, statement: Statement, handle: str) -> str:
        return super()._window(statement, handle) if len(self._new_iterators(self._read_by(statement))) < 3 else ""

    def _packed(self, statement: Statement, handle: str) -> str:
        """Makes a packed copy; the name of it, or nothing."""
        source = self._read_by(statement)
        named, iterators = f"{source}_{statement.name}_packed", self._new_iterators(source)
        turned = [*iterators]
        self.choice.shuffle(turned)
        if self.choice.random() < 0.4:
            turned[-1:] = [f"{turned[-1]} // 2", f"{turned[-1]} % 2"]
        level = f", at={self._loop(statement)}" if self.choice.random() < 0.4 else ""
        line = (
            f"{named} = {handle}.copy({self._name(source)}, [{', '.join(iterators)}], "
            f"layout=[{', '.join(turned)}]{level}, name='{named}')"
        )
        return named if self.attempt(line) else ""

    def _pack(self, statement: Statement, handle: str) -> str:
        self._packed(statement, handle)
        return ""

    def _keep(self, statement: Statement, handle: str) -> str:
        named = self._packed(statement, handle)
        return named and f"{named}.keep()"

    # -- the function

    def _special_case(self, statement: Statement, handle: str) -> str:
        size = self.choice.choice(self.script.program.algorithm.params)
        return (
            f"f.specialize({self.choice.choice((f'{size} % 4 == 0', f'{size} > 4', f'{size} % 2 == 0, {size} < 9'))})"
        )

    def _undo(self, statement: Statement, handle: str) -> str:
        return "f.undo()"

    def _again(self, statement: Statement, handle: str) -> str:
        return "f.apply(f.commands[-1])" if self.script.function.commands else ""

    def _remove(self, statement: Statement, handle: str) -> str:
        gone = [s for s in self.script.program.statements.values() if s.role not in (Role.INIT, Role.UPDATE)]
        return f"f.remove({self._handle(self.choice.choice(gone))})"

    def _automatic(self, statement: Statement, handle: str) -> str:
        return f"f.auto_schedule(threads={self.choice.choice((1, 2))})" if self.choice.random() < 0.3 else ""

    # -- GPUs

    def _blocks(self, statement: Statement, handle: str) -> list[str]:
        """The loops of a statement, the first one or two cut for threads."""
        cut = 0
        loops = list(self.script.program.loop_names(statement))
        for at in range(min(len(loops), self.choice.choice((1, 1, 2)))):
            outer, inner = next(self.fresh), next(self.fresh)
            if not self.attempt(f"{handle}.split({loops[at]}, {self.choice.choice((2, 3, 4))}, {outer}, {inner})"):
                break
            loops[at : at + 1] = [outer, inner]
            cut += 1
            if at + 1 < len(loops):
                break
        return loops[: cut + 1]

    def _kernel(self, statement: Statement, handle: str) -> str:
        """One loop on blocks and the one inside it on threads, or all loops as they are."""
        loops = self._blocks(statement, handle)
        if self.choice.random() < 0.1:
            self.choice.shuffle(loops)
        often = 0.7 if statement.role is Role.UPDATE else 0.03
        combine = f", combine=tm.{self.choice.choice(('ATOMIC', 'TREE'))}" if self.choice.random() < often else ""
        stream = f", stream={self.choice.choice((1, 2))}" if self.choice.random() < 0.2 else ""
        barriers = ", barriers=False" if self.choice.random() < 0.1 else ""
        cut = 1 if len(loops) < 3 else self.choice.choice((1, 2))
        where = f"blocks=[{', '.join(loops[:cut])}], threads=[{', '.join(loops[cut:])}]"
        return f"{handle}.tag_gpu({where}{combine}{stream}{barriers})"

    def _tree(self, statement: Statement, handle: str) -> str:
        """The terms of a sum in blocks, combined in a tree, and across blocks in one of the ways there are."""
        update = self.choice.choice([s for s in self.script.program.statements.values() if s.role is Role.UPDATE])
        *around, last = self.script.program.loop_names(update)
        handle, outer, inner = self._handle(update), next(self.fresh), next(self.fresh)
        if not self.attempt(f"{handle}.split({last}, {self.choice.choice((2, 3, 4))}, {outer}, {inner})"):
            return ""
        across = self.choice.choice(("", ", across=tm.TWO_PASS", ", across=tm.LAST_BLOCK", ", across=tm.LAST_BLOCK"))
        blocks = [*around[-2:], *([outer] if self.choice.random() < 0.8 else [])] or [outer]
        return f"{handle}.tag_gpu(blocks=[{', '.join(blocks)}], threads=[{inner}], combine=tm.TREE{across})"

    def _gpu_tile(self, statement: Statement, handle: str) -> str:
        a, b, *_ = self.script.program.loop_names(statement)
        new = ", ".join([next(self.fresh), next(self.fresh), next(self.fresh), next(self.fresh)])
        return f"{handle}.gpu_tile({a}, {b}, {self.choice.choice((2, 3))}, {self.choice.choice((2, 4))}, {new})"

    def _coarsen(self, statement: Statement, handle: str) -> str:
        return f"{handle}.coarsen({self._loop(statement)}, {self.choice.choice((2, 3))}, {next(self.fresh)})"

    def _tensorized(self, statement: Statement, handle: str) -> str:
        loops = self.script.program.loop_names(statement)
        chosen = [self.choice.choice(loops) for _ in range(3)] if loops else []
        instruction = self.choice.choice(("amx", "m16n8k16", "m16n8k8.tf32"))
        return f"{handle}.tensorize({', '.join(chosen)}, {instruction!r})" if chosen else ""

    def _gpu_copy(self, statement: Statement, handle: str) -> str:
        source = self._read_by(statement)
        named, iterators = f"{source}_{statement.name}_near", ", ".join(self._new_iterators(source))
        into = self.choice.choice(("tm.SHARED", "tm.SHARED", "tm.REGISTER"))
        options = self.choice.choice(("", "", ", pad=1", ", deferred=True", ", buffers=2", ", vector=2"))
        options = options if into == "tm.SHARED" else ""
        return (
            f"{named} = {handle}.copy({self._name(source)}, [{iterators}], at={self._loop(statement)}, into={into}, "
            f"name='{named}'{options})"
        )

    def _barrier(self, statement: Statement, handle: str) -> str:
        return f"f.barrier({handle}, {self._handle(self._other(statement))}, at={self._loop(statement)})"

    def _waits(self, statement: Statement, handle: str) -> str:
        return f"{handle}.wait({self.choice.choice(('', '', 'on=0', 'on=1'))})"

    def _transfer(self, statement: Statement, handle: str) -> str:
        source = self._read_by(statement)
        domain = self._whole(source)
        direction, mode = self.choice.choice(("CPU2GPU", "GPU2CPU")), self.choice.choice(("SYNC", "ASYNC"))
        iterators = ", ".join(self._new_iterators(source)) or "()"
        named = f"{source}_moved_{self.choice.randrange(100)}"
        return (
            f"{named} = f.create_xfer({{{domain}}}, {self._name(source)}[{iterators}], tm.{direction}, tm.{mode}, "
            f"name='{named}')"
        )

    def _whole(self, source: str) -> str:
        """A box of a source, or a part of it."""
        declared = self.script.program.algorithm.source(source)
        shape: Sequence[object] = getattr(declared, "shape", None) or ()
        return ", ".join(f"{x}: {extent}" for x, extent in zip(self._new_iterators(source), shape, strict=False))

    def _derive(self, statement: Statement, handle: str) -> str:
        return f"f.derive_transfers({self.choice.choice(('', '', '', 'overlap=True', 'collectives=True'))})"

    def _gpu_target(self, statement: Statement, handle: str) -> str:
        return f"f.gpu_target(tm.GpuTarget('small', most_threads={self.choice.choice((4, 256))}))"

    def _collapse(self, statement: Statement, handle: str) -> str:
        moved = [s for s in self.script.program.statements.values() if s.link.transfer is not None]
        each = self.choice.choice(moved)
        loops = self.script.program.loop_names(each)
        return f"{self._name(each.name)}.collapse_many({', '.join(loops[self.choice.randrange(len(loops)) :])})"

    # -- ranks

    def _ranks(self, statement: Statement, handle: str) -> str:
        """Blocks of a loop, each on a rank."""
        loop, outer, inner = self._loop(statement), next(self.fresh), next(self.fresh)
        if self.attempt(f"{handle}.split({loop}, {self.choice.choice((1, 2, 2, 3))}, {outer}, {inner})"):
            loop = outer
        combine = ", combine=tm.PRIVATE" if statement.role is Role.UPDATE and self.choice.random() < 0.6 else ""
        return f"{handle}.tag_distribute({loop}{combine})"

    def _distribute(self, statement: Statement, handle: str) -> str:
        algorithm = self.script.program.algorithm
        source = self.choice.choice([*algorithm.inputs, *algorithm.outputs])
        iterators = self._new_iterators(source)
        x, block = self.choice.choice(iterators), self.choice.choice((1, 2, 2, 3))
        rank = self.choice.choice((f"{x} // {block}", f"{x} // {block}", f"{x} % 2", "0"))
        return f"{self._name(source)}.distribute_array([{', '.join(iterators)}], rank={rank})"

    def _grid(self, statement: Statement, handle: str) -> str:
        return f"f.grid({self.choice.choice(('2', '3', *self.script.program.algorithm.params))})"

    def _requests(self, statement: Statement, handle: str) -> str:
        return f"{handle}.set_wait_access({self.choice.choice(('0', self._loop(statement)))})"
