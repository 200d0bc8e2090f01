"""The views of a program and its schedule: pictures, loops, histories, remarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, overload

from tiramisu_py import counting, lower, passes, view
from tiramisu_py.errors import ArgumentError, DeclarationError
from tiramisu_py.function.applying.applied import AppliedStatements
from tiramisu_py.function.applying.looking import looked_at
from tiramisu_py.function.results import Results
from tiramisu_py.function.saving.files import write_page
from tiramisu_py.program.ranks.spread import axes, spread


class Showing(Results):
    """The views of a scheduled function."""

    @overload
    def show(
        self,
        what: Literal["picture"] = "picture",
        path: str | Path | None = None,
        /,
        *,
        beside: Showing | None = None,
        inputs: Mapping[str, Any] | None = None,
        **sizes: int,
    ) -> view.Picture: ...

    @overload
    def show(self, what: Literal["messages"], /, **sizes: int) -> str: ...

    @overload
    def show(self, what: Literal["loops", "pseudocode"], /) -> str: ...

    @overload
    def show(
        self, what: Literal["lowered"], /, vector_bytes: int = 64, *, until: str | None = None
    ) -> view.ReadableLoops: ...

    @overload
    def show(self, what: Literal["history"], /, computation: str | AppliedStatements) -> view.Explanation: ...

    @overload
    def show(self, what: Literal["remarks"], /) -> tuple[str, ...]: ...

    def show(self, what: str = "picture", /, *arguments: Any, **named: Any) -> Any:
        """Show the program and its schedule: as a picture, as loops, as the history of a computation, in remarks.

        ::

            f.show()                                    a picture, which a notebook displays
            f.show(N=8, inputs={"image": image})        at this size, with the values of one's own picture
            f.show("picture", "both.html", beside=g)    of two schedules, written to a file that needs nothing else
            f.show("messages", C=201)                   the messages between ranks, as SVG text
            print(f.show("loops"))                      the loops as the commands have made them so far
            print(f.show("pseudocode"))                 the loops of the complete program
            print(f.show("lowered", until="vectorize")) the loops after a pass
            print(f.show("history", "down"))            the commands that changed a computation
            for remark in f.show("remarks"):            reasons why the schedule is slow
                print(remark)

        **"picture"** shows the instances of each statement and who runs them (thread, block, rank), their order with a
        slider for the time, tiles, dependences, the elements of each array that are read and stored, and messages, at
        small sizes. Those that are not given are chosen so that there is something to see. A program that the proof
        refuses is shown too, at the sizes of its counterexample, with the violation in red. `beside` is another
        schedule, drawn beside this one at the same sizes, and compared. Pointing at an instance shows its value, as
        `evaluate` computes it from `inputs`, cut to these sizes, and from random ones where none is given. With a path
        it is written there as HTML. Raises `ArgumentError` for sizes that are too large to be drawn, and for inputs
        that do not fit; `SavedError` if the file cannot be written.

        **"messages"** draws an arrow for each pair of ranks that communicates:
        ``Path("messages.svg").write_text(f.show("messages", C=201))``. Raises `ArgumentError` for a program without
        ranks, and for more than 64 of them.

        **"loops"** is text, with tags of loops and the statements inside. It needs no outputs and no proof, so that it
        shows any step of a schedule. **"pseudocode"** is that of the complete program, as it is lowered.

        **"lowered"** are the loops that will be emitted, for a processor with vectors of `vector_bytes`, as a value
        that prints as pseudocode. With `until` they are those after the pass of that name; the [page of
        passes](passes.md) lists the names. A kernel runs the same passes up to that one, if it has it. Raises
        `LegalityError` for a program that the proof refuses, and `ArgumentError`, with the names of all passes, if
        there is no such pass, and for a size that is not a power of two from 8 to 64.

        **"history"** has the commands that changed a computation, with its loops and storage before and after.
        Commands on other computations are listed where they changed the loops or the storage of this one. Raises
        `DeclarationError` if there is no such computation.

        **"remarks"** are sentences: of loops that lost bounds which values say, with the command, and what to do; and
        of what vector code does lane by lane (`Kernel.remarks`).

        Raises `ArgumentError` for another view.
        """
        views: dict[str, Callable[..., Any]] = {
            "picture": self._picture,
            "messages": self._messages,
            "loops": self._nests,
            "pseudocode": self._pseudocode,
            "lowered": self._lowered_loops,
            "history": self._history,
            "remarks": self._remarks,
        }
        return looked_at(self, "show", views, what, arguments, named)

    def _picture(
        self,
        path: str | Path | None = None,
        /,
        *,
        beside: Showing | None = None,
        inputs: Mapping[str, Any] | None = None,
        **sizes: int,
    ) -> view.Picture:
        if beside is not None and not isinstance(beside, Showing):
            raise ArgumentError(f"{beside!r} is no function: give beside= another schedule, such as f.copy()")
        if beside is None:
            found = view.side_by_side(self._scenes(sizes, inputs))
        else:
            first = self._scenes(sizes, inputs)[-1:]
            found = view.side_by_side(first, beside._scenes(first[0].sizes, inputs)[-1:])
        if path is not None:
            write_page(path, found.html)
        return found

    def _scenes(self, sizes: Mapping[str, int], inputs: Mapping[str, Any] | None) -> tuple[view.Scene, ...]:
        if self._open_domains:
            raise DeclarationError(f"{self.name} cannot be drawn: {self._open_domains}")
        report = self.check()
        return view.pictured(spread(self.completed), report, sizes, inputs)

    def _messages(self, **sizes: int) -> str:
        if not axes(self._program):
            raise ArgumentError(
                f"{self.name} has no ranks, and so no messages to draw: for a picture of its schedule write "
                f'{self.name}.show("picture", "{self.name}.html")'
            )
        return view.channels_picture(counting.communication(self._program, sizes))

    def _nests(self) -> str:
        return view.loop_nests(self._program) + "\n"

    def _pseudocode(self) -> str:
        self._require_outputs()
        return view.pseudocode(lower.lower(self.completed))

    def _history(self, computation: str | AppliedStatements) -> view.Explanation:
        name = str(computation if isinstance(computation, str) else getattr(computation, "name", ""))
        if name not in self.algorithm.computations:
            known = ", ".join(self.algorithm.computations) or "none yet"
            raise DeclarationError(f"{self.name} has no computation {computation!r} to explain: it has {known}")
        return view.explained(self._program, name)

    def _remarks(self) -> tuple[str, ...]:
        lost = view.lost_bounds(self._program)
        return (*lost, *(passes.remarks(self._lowered_loops()) if self._is_emitted() else ()))

    def _is_emitted(self) -> bool:
        """Whether there is a program, and the proof does not refuse it."""
        return bool(self.algorithm.outputs) and self.check().ok
