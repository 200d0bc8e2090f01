"""The proof beside the checker of certificates, on random programs.

The evidence for a program that the proof refuses is as good as it can be, and the checker rejects it, except where
the proof knows more than the values that reads find: `BEYOND` lists the words of these refusals.

    python -m tests.proof.certificates.agreement --programs 100 --seed 0

prints the rows of the table in docs/trust.md: for each kind of program, how often the two say what.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import tiramisu_py as tm
from tests.oracle.kinds import KINDS
from tests.proof.certificates.checking import judged
from tiramisu_py.proof.certificates.certificate import certificate

#: Kinds of programs that certificates cover, at least some of each.
COVERED = ("any", "cores", "groups", "gpu", "cooperative", "ranks", "derived", "patterns")

#: What a certificate of a refused schedule may leave out.
BEYOND = {
    "vectors past the end of their loop": (
        "cannot run past its end",
        "past the end of",
        "run twice where its last vector",
    ),
    "prefetches": ("prefetch",),
    "orders of terms that are declared": ("ordered", "each iteration of which"),
    "atomics that no machine has": ("tm.ATOMIC",),
    "waits for what is issued later": ("before it is issued",),
    "kernels that cannot be launched": ("has no affine lower bound", "no constant bound"),
    "kinds of memory": (
        "which only its kernel reaches",
        "is in GPU memory alone",
        "a kernel cannot allocate",
        "but not within the block",
        "which is not constant",
    ),
}

PROVEN_ACCEPTED = "proven, certificate accepted"
REFUSED_REJECTED = "refused, certificate rejected"
BEYOND_ACCEPTED = "refused for what a certificate does not show, accepted"
NOT_COVERED = "not covered by certificates"
PROVEN_REJECTED = "proven, certificate rejected"
WRONG_ACCEPTED = "refused for a wrong value, certificate accepted"
OUTCOMES = (
    PROVEN_ACCEPTED, REFUSED_REJECTED, BEYOND_ACCEPTED, NOT_COVERED, PROVEN_REJECTED, WRONG_ACCEPTED,
)  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """What the two say of one random program; `why` is the claim, the refusal, or what a certificate leaves out."""

    kind: str
    seed: int
    outcome: str
    why: str


def compared(kind: str, seed: int) -> Compared:
    """The program of a seed, proven and checked."""
    f = KINDS[kind].made(seed).function
    report = f.check()
    try:
        said = judged(certificate(report.program or f.program, partial=True))
    except tm.UnsupportedError as refusal:
        return Compared(kind, seed, NOT_COVERED, str(refusal))
    if report.ok:
        return Compared(kind, seed, PROVEN_REJECTED if said else PROVEN_ACCEPTED, said)
    if said:
        return Compared(kind, seed, REFUSED_REJECTED, said)
    beyond = _beyond([str(v) for v in report.violations])
    return Compared(kind, seed, BEYOND_ACCEPTED if beyond else WRONG_ACCEPTED, beyond or str(report))


def _beyond(violations: list[str]) -> str:
    """What a certificate leaves out, if that is the only thing that is wrong with a program."""
    found = [next((name for name, words in BEYOND.items() if any(w in v for w in words)), "") for v in violations]
    return ", ".join(dict.fromkeys(found)) if all(found) else ""


def disagreements(found: list[Compared]) -> list[Compared]:
    """Those in which one of the two is wrong."""
    return [each for each in found if each.outcome in (PROVEN_REJECTED, WRONG_ACCEPTED)]


def table(found: list[Compared], kinds: list[str]) -> Iterator[str]:
    """The rows: an outcome, and how often it is that of each kind."""
    counts = Counter((each.outcome, each.kind) for each in found)
    yield f"| | {' | '.join(kinds)} |"
    yield f"|---|{'---|' * len(kinds)}"
    for outcome in OUTCOMES:
        yield f"| {outcome} | {' | '.join(str(counts[outcome, kind]) for kind in kinds)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=100, help="how many programs of each kind")
    parser.add_argument("--seed", type=int, default=0, help="the first of their seeds")
    parser.add_argument("--kinds", nargs="+", choices=COVERED, default=list(COVERED))
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.programs)
    found = [compared(kind, seed) for kind in given.kinds for seed in seeds]
    for each in disagreements(found):
        print(f"{each.outcome}: {each.kind}, seed {each.seed}: {each.why}")
    print(*table(found, given.kinds), sep="\n")
    return 1 if disagreements(found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
