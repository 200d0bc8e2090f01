"""The costs of a schedule before it runs: operations and bytes, traffic, memory, kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, overload

from tiramisu_py import backends, counting, passes, toolchain, view
from tiramisu_py.algorithm.domains.extents_from_arguments import infer_params
from tiramisu_py.function.applying.looking import looked_at
from tiramisu_py.function.scheduled_values import checked_threads
from tiramisu_py.function.showing import Showing
from tiramisu_py.program.machine.gpu_target import GpuTarget
from tiramisu_py.program.ranks.spread import spread

_Found = TypeVar("_Found")


class Costs(Showing):
    """The costs of a scheduled function."""

    @overload
    def cost(self, what: Literal["counts"] = "counts", /, **params: int) -> view.ScheduleCost: ...

    @overload
    def cost(
        self, what: Literal["symbolic"], /, *, remainders: Mapping[str, int] | None = None, **known: int
    ) -> view.SymbolicCost: ...

    @overload
    def cost(self, what: Literal["communication"], /, **params: int) -> counting.Communication: ...

    @overload
    def cost(self, what: Literal["memory"], /, *, threads: int = 1, **params: int) -> view.LiveMemory: ...

    @overload
    def cost(
        self, what: Literal["kernels"], /, kernel: toolchain.Kernel | None = None
    ) -> tuple[view.KernelFacts, ...]: ...

    def cost(self, what: str = "counts", /, *arguments: Any, **named: Any) -> Any:
        """Count what the schedule does at these sizes before it runs: exact numbers of operations and bytes.

        ::

            print(f.cost(N=1000, M=1000))                       operations, and bytes of each level of memory
            print(f.cost("symbolic"))                           as polynomials, for sizes of whole tiles
            print(f.cost("symbolic", M=1000))                   in N alone
            print(f.cost("symbolic", remainders={"N": 5}))      for sizes N that are 5 beyond a multiple of the tiles
            f.cost("communication", C=201).bytes                of transfers, and of messages between ranks
            f.cost("memory", T=200, N=4096).peak                the most bytes of the host's memory at a time
            -->    13172736
            f.cost("kernels")                                   the facts of each GPU kernel

        **"counts"**: each statement has its instances, its operations, the bytes that it loads and stores, and the
        share of the lanes of its vectors that it fills; each array the elements that are used; loops over tiles the
        most bytes that a tile uses; transfers and messages what they move; `temporaries` are the most bytes of
        temporaries at a time. Runs (``start[i] <= p < start[i + 1]``) count as equally long, and as all positions
        together, which is exact if the first run begins, and the last one ends, with all positions.
        `fetched` says what comes into a cache; `levels` and `roofline` set this beside a machine's; `kernels` has the
        sectors, bank conflicts and occupancy of a GPU's kernels.

        **"symbolic"**: operations and bytes as polynomials in the parameters, fitted to exact counts and verified at
        other sizes. Where no single polynomial does for all sizes, it is one for multiples of the sizes of all tiles,
        plus `remainders` (default: 0). Each `FittedCount` says what it was fitted to and verified at; one for which a
        verified size disagrees says that there is no polynomial. Raises `ArgumentError` if all sizes are known, and for
        sizes that the function's assumptions exclude.

        **"communication"**: the elements, bytes and operations of transfers, in total and of each one. Between ranks it
        counts messages: `elements`, `bytes` and `messages` of all ranks, ``of_rank(1).sent`` and ``.received`` of one,
        `by_rank` of each, and ``channels()`` for each pair of ranks. With blocks that have bounds known at run time it
        counts the messages of the one rank with these bounds. `in_place` lists what GPUs read and write in unified
        arrays (``memory=tm.HOST_MAPPED``), which nothing moves.

        **"memory"**: the bytes of temporaries over a call, exactly. An array is held from its first use to its last, in
        the order of the schedule, as large as `fold` and the loops that it is local to leave it; arrays that never live
        together take turns in one memory. `peak` equals `Kernel.temporary_bytes`; `peaks` has it by memory, `at` is the
        moment with what makes it, `moments` are all, and `picture()` draws them. Each of the `threads` of a parallel
        loop has its own arrays inside. A rank's number is a parameter, ``rank0=0``. Memory of runtimes is not counted:
        each queue of files takes a megabyte where levels are no whole pages of 4096 bytes, and a process loads about
        one for its first call.

        **"kernels"**: the static facts of each GPU kernel: its threads, its shared memory, the cost of a warp's
        accesses. With a compiled `kernel` of this function, also the registers of a thread that the CUDA compiler
        reported and, if nvdisasm is installed (extra ``tuning``), the machine code: `KernelFacts.code`.

        Raises `ArgumentError` for a parameter without a value, and for another view; "memory" and "kernels" raise
        `LegalityError` for a program that the proof refuses.
        """
        views: dict[str, Callable[..., Any]] = {
            "counts": self._counts,
            "symbolic": self._symbolic_cost,
            "communication": self._communication,
            "memory": self._live_memory,
            "kernels": self._kernel_facts,
        }
        return looked_at(self, "cost", views, what, arguments, named)

    def _counts(self, **params: int) -> view.ScheduleCost:
        moved = counting.communication(self._program, params)
        return view.schedule_cost(spread(self.completed), params, moved, lambda: self._emitted(params))

    def _symbolic_cost(self, *, remainders: Mapping[str, int] | None = None, **known: int) -> view.SymbolicCost:
        program = spread(self.completed)

        def counts(sizes: Mapping[str, int]) -> Mapping[str, int]:
            found = view.schedule_cost(
                program, sizes, counting.communication(self._program, sizes), view.EmittedFindings
            )
            moved = found.communication.transfers
            return {
                "operations": found.operations, "accessed": found.accessed, "distinct": found.distinct,
                "compulsory": found.compulsory, "through_tiles": found.through_tiles,
                **{f"instances of {each.name}": each.instances for each in found.statements},
                **({"moved": sum(each.bytes for each in moved)} if moved else {}),
            }  # fmt: skip

        return view.symbolic_cost(program, counts, known, remainders or {})

    def _communication(self, **params: int) -> counting.Communication:
        return counting.communication(self._program, params)

    def _live_memory(self, *, threads: int = 1, **params: int) -> view.LiveMemory:
        loops = self._lowered_loops()
        names = (*loops.params, *(loops.grid.coordinates if loops.grid else ()))
        sizes = infer_params(names, [], params)
        return view.LiveMemory(self.name, sizes, passes.moments(loops, sizes, checked_threads(threads)))

    def _kernel_facts(self, kernel: toolchain.Kernel | None = None) -> tuple[view.KernelFacts, ...]:
        function = self._lowered_loops()
        names, gpu = backends.kernel_names(function), function.gpus.kind
        reported = {} if kernel is None else kernel.resources
        code = {} if kernel is None or toolchain.find_nvdisasm() is None else kernel.machine_code()
        return tuple(
            view.kernel_facts(
                each,
                {a: found.registers for a, found in _by_number(reported.get(names[each.name], {}), gpu).items()},
                _by_number(code.get(names[each.name], {}), gpu),
                gathers=True,
            )
            for each in function.gpus.kernels
        )

    def _emitted(self, params: Mapping[str, int]) -> view.EmittedFindings:
        """The facts about the loops that are emitted; nothing of a program that the proof refuses."""
        if not self._is_emitted():
            return view.EmittedFindings()
        loops = self._lowered_loops()
        temporaries = passes.temporary_bytes(loops, params) if loops.grid is None else {}
        facts = self._kernel_facts() if loops.gpus.kernels else ()
        return view.EmittedFindings(facts, passes.remarks(loops), temporaries)


def _by_number(found: Mapping[str, _Found], gpu: GpuTarget) -> dict[int, _Found]:
    """Findings for each architecture, by the architecture's number: 90 for "sm_90"."""
    numbers = {name.removeprefix(gpu.architecture): each for name, each in found.items()}
    return {int(number): each for number, each in numbers.items() if number.isdecimal()}
