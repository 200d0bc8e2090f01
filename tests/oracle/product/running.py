"""A long run: chunks of seeds for all processes, progress while it runs, and the state on disk after each chunk."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from pathlib import Path

from tests.oracle.product.finds import Find
from tests.oracle.product.state import DEFECTS, STRICT, WRONG, State
from tests.oracle.product.workers import Chunk, begun, heard
from tests.oracle.seeds import revision

#: How often the progress is shown where it stays in one line, and where each is a line of its own.
EACH, EACH_LINE = 2.0, 60.0
#: How long chunks that are under way may take when the time is over; what is left of them is done the next time.
GRACE = 45.0


class Running:
    """A run of so many minutes from the state in a folder."""

    def __init__(self, state: State, folder: Path, kinds: tuple[str, ...]) -> None:
        self.state = state
        self.folder = folder
        self.kinds = kinds
        self.chunks: list[Chunk] = []
        self._shown = 0.0
        self._began = time.monotonic()
        self._before = state.seconds
        self._programs = state.programs

    def run(self, minutes: float, processes: int) -> int:
        """Until the time is over, or interrupted; how many programs have been accepted and wrong, in all."""
        end = time.monotonic() + 60 * minutes
        self.state.processes = processes
        if minutes > 0:
            self.state.code = [*dict.fromkeys((*self.state.code, *revision()))]
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            while time.monotonic() < end or (self.chunks and time.monotonic() < end + GRACE):
                while len(self.chunks) < processes and time.monotonic() < end:
                    self.chunks.append(begun(self.state.taken(), self.state.seed, self.kinds))
                self._listen()
                self._show()
        except KeyboardInterrupt:
            print("\ninterrupted: the next run goes on from here", file=sys.stderr)
        finally:
            for chunk in self.chunks:
                chunk.end()
            self._save()
            signal.signal(signal.SIGTERM, before)
        self._show(last=True)
        return sum(each["came"] in WRONG for each in self.state.finds)

    def _save(self) -> None:
        self.state.seconds = self._before + time.monotonic() - self._began
        if self.state.next:
            self.state.write(self.folder, [chunk.number for chunk in self.chunks])

    def _listen(self) -> None:
        for chunk, what, said in heard(self.chunks, 1.0):
            if what == "at":
                chunk.at = said
            elif what == "trial":
                came, by, why, seed, seconds = said
                self.state.has_taken(round(seconds, 2), f"{chunk.kind} {seed}")
                chunk.counts.update([came, *by])
                chunk.reasons.update([why] if why else [])
            elif what == "find":
                self._found(said)
            else:
                self._finished(chunk, what)
        for chunk in [each for each in self.chunks if each.looked_at()]:
            self._finished(chunk, "hangs")

    def _finished(self, chunk: Chunk, what: str) -> None:
        """A chunk is done; or its process has ended or been silent, and the rest of it is left out."""
        if what != "done":
            self._found(Find(chunk.kind, chunk.at, what, f"the process {what}"))
            chunk.counts[what] += 1
        chunk.end()
        self.chunks.remove(chunk)
        self.state.counts.setdefault(chunk.kind, Counter()).update(chunk.counts)
        self.state.reasons.update(chunk.reasons)
        self._save()

    def _found(self, find: Find) -> None:
        if self.state.add_find(find.kind, find.seed, find.came):
            path = find.write(self.folder / "finds")
            if find.came != STRICT:
                text = find.wrong.strip().splitlines()
                print(f"\n{find.came}: {find.kind}, seed {find.seed}: {text[-1] if text else ''}\n{path}", flush=True)

    def _show(self, last: bool = False) -> None:
        """The line of progress: in place on a terminal, now and then elsewhere."""
        steady = sys.stderr.isatty()
        if not last and time.monotonic() - self._shown < (EACH if steady else EACH_LINE):
            return
        self._shown = time.monotonic()
        passed = max(time.monotonic() - self._began, 0.001)
        state, under_way = self.state, sum(chunk.counts["judged"] for chunk in self.chunks)
        rate = (state.programs + under_way - self._programs) / passed
        line = (
            f"{state.programs + under_way:,} programs judged, {state.total('compiled'):,} compiled, "
            f"{state.total('refused'):,} refused, {rate:.1f} a second; {_finds(state)}"
        )
        print(f"\r{line}" if steady else line, end="" if steady and not last else "\n", file=sys.stderr, flush=True)


def _finds(state: State) -> str:
    came = Counter(each["came"] for each in state.finds)
    wrong, other = sum(came[sort] for sort in WRONG), sum(came[sort] for sort in DEFECTS)
    return f"{wrong} accepted and wrong, {came[STRICT]} refused though right, {other} other finds"


def summary(state: State) -> str:
    """All counts, for the reader at the end."""
    lines = []
    for kind, found in sorted(state.counts.items()):
        lines.append(f"{kind}: {', '.join(f'{count} {came}' for came, count in sorted(found.items()))}")
    if state.slowest is not None:
        lines.append(f"slowest check: {state.slowest[0]:.2f} s of the processor, {state.slowest[1]}")
    lines += [f"refused though right, {count} times: {why}" for why, count in state.reasons.most_common()]
    return "\n".join(lines)
