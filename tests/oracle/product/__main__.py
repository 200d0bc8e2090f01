"""``scripts/fuzz``: random programs before judges that know nothing of each other, for as long as there is time.

Programs are made, proven and lowered once for all judges; `tests.oracle.kinds` says which there are. What has been
done is kept in a folder, and the next run with the same first seed goes on from there; so are programs that are found,
made small. A kind and a seed make one program again: ``--programs 1 --seed 7 --kinds whole``.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from tests.oracle.fuzzing import SUMS, TOGETHER, Campaign, Wanted
from tests.oracle.kinds import KINDS
from tests.oracle.product.recording import record
from tests.oracle.product.running import Running, summary
from tests.oracle.product.state import known
from tests.oracle.product.workers import TURNS
from tests.oracle.seeds import OF_SCRIPT, commits, first_of, of_commit


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries programs, says what failed and how to have it again; answers the exit code."""
    given = _options().parse_args(arguments)
    print(f"first seed {given.seed}", flush=True)
    if given.programs is not None:
        return _tried(given.kinds or [*KINDS], given.seed, given.programs)
    folder = given.folder / str(given.seed)
    state = known(folder, given.seed)
    wrong = Running(state, folder, tuple(given.kinds or TURNS)).run(given.minutes, given.processes)
    print(summary(state))
    if given.record:
        record(state)
    print(f"{wrong} failed")
    return int(wrong > 0)


def _tried(names: Sequence[str], first: int, programs: int) -> int:
    """So many programs of each kind, all of them before all judges."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    failed = 0
    for name, seeds in turns(names, first, programs):
        for trial in Campaign(name, seeds, Wanted(len(seeds), len(seeds), len(seeds))).trials():
            counts[name][trial.came] += 1
            counts[name].update(trial.by - {"judged", SUMS})
            if trial.wrong:
                failed += 1
                print(f"\n{trial.text}", flush=True)
    for name, found in counts.items():
        print(f"{name}: {', '.join(f'{count} {came}' for came, count in sorted(found.items())) or 'none'}")
    print(f"{failed} failed")
    return int(failed > 0)


def turns(names: Sequence[str], first: int, programs: int) -> Iterator[tuple[str, range]]:
    """Some seeds of each kind, then the next of each; `programs` of each in all."""
    for start in itertools.count(first, TOGETHER):
        left = min(TOGETHER, first + programs - start)
        if left <= 0:
            return
        yield from ((name, range(start, start + left)) for name in names)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__, formatter_class=_Formatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="for so long; ten, if nothing is said")
    parser.add_argument("--programs", type=int, help="so many programs of each kind, however long they take")
    own = first_of(OF_SCRIPT, of_commit(commits()))
    parser.add_argument("--seed", type=int, default=own, help="the first seed; by default others with every commit")
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], help="of these kinds only")
    default = Path(platformdirs.user_cache_dir("tiramisu_py")) / "fuzz"
    parser.add_argument("--folder", type=Path, default=default, help="where the state is kept, and what is found")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="as many as there are cores")
    parser.add_argument("--record", action="store_true", help="write the figures of this seed to docs/trust.md")
    return parser


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **{**more, "max_help_position": 30})


if __name__ == "__main__":
    raise SystemExit(main())
