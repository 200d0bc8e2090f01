"""Pictures of a schedule: in a notebook, in a file, beside another schedule."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from tiramisu_py import counting, passes, view
from tiramisu_py.algorithm.domains.extents_from_arguments import infer_params
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.function.results import Results
from tiramisu_py.function.saving.files import write_page
from tiramisu_py.function.scheduled_values import checked_threads
from tiramisu_py.program.ranks.spread import axes, spread


class Showing(Results):
    """The pictures of a scheduled function."""

    def show(
        self, *, beside: Showing | None = None, inputs: Mapping[str, Any] | None = None, **sizes: int
    ) -> view.Picture:
        """A picture of the schedule at small sizes, which a notebook displays.

        ::

            f.show()
            f.show(N=8)
            f.show(N=8, inputs={"image": image})        the values of one's own picture

        It shows the instances of each statement and who runs them (thread, block, rank), their order with a slider for
        the time, tiles, dependences, the elements of each array that are read and stored, and messages. The sizes that
        are not given are chosen so that there is something to see. A program that the proof refuses is shown too, at
        the sizes of its counterexample, with the violation in red. `beside` is another schedule, drawn beside this one
        at the same sizes, and compared. Pointing at an instance shows its value, as `evaluate` computes it from
        `inputs`, cut to these sizes, and from random ones where none is given. Raises `ArgumentError` for sizes that
        are too large to be drawn, and for inputs that do not fit.
        """
        if beside is not None and not isinstance(beside, Showing):
            raise ArgumentError(f"{beside!r} is no function: give beside= another schedule, such as f.copy()")
        if beside is None:
            return view.side_by_side(self._scenes(sizes, inputs))
        first = self._scenes(sizes, inputs)[-1:]
        return view.side_by_side(first, beside._scenes(first[0].sizes, inputs)[-1:])

    @overload
    def picture(self, path: None = None, /, *, beside: None = None, inputs: None = None, **params: int) -> str: ...

    @overload
    def picture(
        self,
        path: str | Path,
        /,
        *,
        beside: Showing | None = None,
        inputs: Mapping[str, Any] | None = None,
        **params: int,
    ) -> view.Picture: ...

    def picture(
        self,
        path: str | Path | None = None,
        /,
        *,
        beside: Showing | None = None,
        inputs: Mapping[str, Any] | None = None,
        **params: int,
    ) -> view.Picture | str:
        """Write a picture of the schedule at small sizes to an HTML file, which needs nothing else.

        ::

            f.picture("blur.html")                      sizes that are easy to see
            f.picture("blur.html", N=8, M=8)
            f.picture("both.html", beside=g)            two schedules, and the pairs of instances in another order

        `Function.show` says what is in it. Without a path: only the messages at these sizes, as SVG text, with an arrow
        for each pair of ranks that communicates: ``Path("messages.svg").write_text(f.picture(C=201))``. This raises
        `ArgumentError` for a program without ranks, and for more than 64 of them. Raises `SavedError` if the file
        cannot be written.
        """
        if path is None and not (beside is None and inputs is None):
            given = "inputs" if beside is None else "beside"
            raise ArgumentError(f"{self.name}.picture({given}=...) is written to a file: give its path first")
        if path is None:
            return self._messages(params)
        found = self.show(beside=beside, inputs=inputs, **params)
        write_page(path, found.html)
        return found

    def cost(self, **params: int) -> view.ScheduleCost:
        """Count what the schedule does at these sizes before it runs: exact numbers of operations and bytes.

        ::

            print(f.cost(N=1000, M=1000))

        Each statement has its instances, its operations, the bytes that it loads and stores, and the share of the lanes
        of its vectors that it fills; each array the elements that are used; loops over tiles the most bytes that a tile
        uses; transfers and messages what they move; `temporaries` are the most bytes of temporaries at a time. Runs
        (``start[i] <= p < start[i + 1]``) count as equally long, and as all positions together, which is exact if the
        first run begins, and the last one ends, with all positions.
        `fetched` says what comes into a cache; `levels` and `roofline` set this beside a machine's; `kernels` has the
        sectors, bank conflicts and occupancy of a GPU's kernels. Raises `ArgumentError` for a parameter without a
        value.
        """
        moved = counting.communication(self._program, params)
        return view.schedule_cost(spread(self.completed), params, moved, lambda: self._emitted(params))

    def memory(self, *, threads: int = 1, **params: int) -> view.LiveMemory:
        """The bytes of temporaries over a call at these sizes, exactly: what is held when, and where they are most.

        ::

            print(f.memory(T=200, N=4096))
            f.memory(T=200, N=4096).peak            the most bytes of the host's memory at a time
            -->    13172736

        An array is held from its first use to its last, in the order of the schedule, as large as `fold` and the loops
        that it is local to leave it; arrays that never live together take turns in one memory. `peak` equals
        `Kernel.temporary_bytes`; `peaks` has it by memory, `at` is the moment with what makes it, `moments` are all,
        and `picture()` draws them. Each of the `threads` of a parallel loop has its own arrays inside. A rank's number
        is a parameter, ``rank0=0``. Memory of runtimes is not counted: each queue of files takes a megabyte where
        levels are no whole pages of 4096 bytes, and a process loads about one for its first call. Raises
        `ArgumentError` for a parameter without a value, `LegalityError` for a program that the proof refuses.
        """
        loops = self.lowered()
        names = (*loops.params, *(loops.grid.coordinates if loops.grid else ()))
        sizes = infer_params(names, [], params)
        return view.LiveMemory(self.name, sizes, passes.moments(loops, sizes, checked_threads(threads)))

    def symbolic_cost(self, *, remainders: Mapping[str, int] | None = None, **known: int) -> view.SymbolicCost:
        """Operations and bytes as polynomials in the parameters, fitted to exact counts and verified at other sizes.

        ::

            print(f.symbolic_cost())                        for sizes of whole tiles
            print(f.symbolic_cost(M=1000))                  in N alone
            print(f.symbolic_cost(remainders={"N": 5}))     for sizes N that are 5 beyond a multiple of the tiles

        Where no single polynomial does for all sizes, it is one for multiples of the sizes of all tiles, plus
        `remainders` (default: 0). Each `FittedCount` says what it was fitted to and verified at; one for which a
        verified size disagrees says that there is no polynomial. Raises `ArgumentError` if all sizes are known, and for
        sizes that the function's assumptions exclude.
        """
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

    @property
    def remarks(self) -> tuple[str, ...]:
        """Reasons why the schedule is slow, in sentences: loops that lost bounds which values say, with the
        command, and what to do; and what vector code does lane by lane (`Kernel.remarks`).

        ::

            for remark in f.remarks:
                print(remark)
        """
        lost = view.lost_bounds(self._program)
        return (*lost, *(passes.remarks(self.lowered()) if self._is_emitted() else ()))

    def _is_emitted(self) -> bool:
        """Whether there is a program, and the proof does not refuse it."""
        return bool(self.algorithm.outputs) and self.check().ok

    def _emitted(self, params: Mapping[str, int]) -> view.EmittedFindings:
        """The facts about the loops that are emitted; nothing of a program that the proof refuses."""
        if not self._is_emitted():
            return view.EmittedFindings()
        loops = self.lowered()
        temporaries = passes.temporary_bytes(loops, params) if loops.grid is None else {}
        return view.EmittedFindings(self.facts() if loops.kernels else (), passes.remarks(loops), temporaries)

    def _messages(self, params: Mapping[str, int]) -> str:
        if not axes(self._program):
            raise ArgumentError(
                f"{self.name} has no ranks, and so no messages to draw: for a picture of its schedule give a file, "
                f'{self.name}.picture("{self.name}.html")'
            )
        return view.channels_picture(counting.communication(self._program, params))

    def _scenes(self, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None) -> tuple[view.Scene, ...]:
        if self._open_domains:
            raise DeclarationError(f"{self.name} cannot be drawn: {self._open_domains}")
        report = self.check()
        return view.pictured(spread(self.completed), report, sizes, inputs)
