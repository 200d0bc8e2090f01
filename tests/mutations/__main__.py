"""Makes the compiler wrong at one place after another, and looks whether tests notice: `scripts/mutations`.

scripts/mutations                  all of them; writes docs/results/mutations.md
scripts/mutations races vectors    those with one of these words in what is wrong, or in their file
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from queue import SimpleQueue

from tests.mutations import page
from tests.mutations.lists import every
from tests.mutations.mutation import Mutation
from tests.mutations.running import Outcome, Overlay, overlay


def main(words: Sequence[str]) -> int:
    """Runs the mutations with one of these words, or all; 1 where one is not caught."""
    chosen = [each for each in every() if not words or any(word in f"{each.what} {each.file}" for word in words)]
    outcomes = outcomes_of(chosen, min(os.cpu_count() or 1, 8))
    missed = [each for each in outcomes if not each.is_caught]
    print(f"{len(chosen)} mutations, {len(outcomes) - len(missed)} caught")
    for each in missed:
        print(f"\nnot caught: {each.mutation.what} ({each.mutation.file}), status {each.status}\n{each.output[-2000:]}")
    if not words:
        caught = {each.mutation for each in outcomes if each.is_caught}
        page.PAGE.write_text(page.text(caught, datetime.now(UTC).date()))
    return 1 if missed else 0


def outcomes_of(chosen: Sequence[Mutation], workers: int) -> list[Outcome]:
    """What becomes of the tests under each mutation, several at a time."""
    free = SimpleQueue[Overlay]()
    done = 0

    def tried(each: Mutation) -> Outcome:
        nonlocal done
        own = free.get()
        start = time.perf_counter()
        outcome = own.outcome(each)
        free.put(own)
        done += 1
        said = "caught" if outcome.is_caught else "NOT CAUGHT"
        print(f"[{done}/{len(chosen)}] {said} in {time.perf_counter() - start:.1f} s: {each.what}", flush=True)
        return outcome

    with ExitStack() as folders, ThreadPoolExecutor(workers) as pool:
        for _ in range(workers):
            free.put(folders.enter_context(overlay()))
        return list(pool.map(tried, chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
