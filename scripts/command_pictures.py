"""Draws, for commands that change an order or a place, a small program before and after the command.

The pictures, ``docs/pictures/commands/NAME.svg``, are made of the data of `Function.show`; the reference of commands
shows them. With ``--check`` it only reports, by its exit status, whether they are current.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "scripts"))

import tiramisu_py as tm  # noqa: E402
from schedule_drawing import Drawn, before_and_after, buffers, drawn, in_rows, stacked  # noqa: E402

FOLDER = ROOT / "docs" / "pictures" / "commands"
N, M, T = tm.params("N M T")
i, j, k, t, d, i0, i1, j0, j1, k0, k1, t0, t1, x, w = tm.iters("i j k t d i0 i1 j0 j1 k0 k1 t0 t1 x w")

#: A program before the command, with the sizes of the picture; then, the command given, again.
Example = Callable[[], Iterator[tuple[tm.Function, dict[str, int]]]]
EXAMPLES: dict[str, Example] = {}


def example(name: str) -> Callable[[Example], Example]:
    """The example of the command with this name."""

    def keep(build: Example) -> Example:
        EXAMPLES[name] = build
        return build

    return keep


def simple(name: str, build: Callable[[], tuple], command: Callable[..., object], **sizes: int) -> None:
    """An example of one program and one command, which is given the handles."""

    def run() -> Iterator[tuple[tm.Function, dict[str, int]]]:
        f, *handles = build()
        yield f, sizes
        command(*handles)
        yield f, sizes

    EXAMPLES[name] = run


# -- programs


def line() -> tuple[tm.Function, tm.Computation]:
    """A row of values."""
    f = tm.Function("line", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {i: N}, 2 * a[i])
    f.outputs(b)
    return f, b


def plane() -> tuple[tm.Function, tm.Computation]:
    """Rows and columns of values."""
    f = tm.Function("plane", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    b = f.computation("b", {i: N, j: M}, 2 * a[i, j])
    f.outputs(b)
    return f, b


def box() -> tuple[tm.Function, tm.Computation]:
    """Rows of four values each, which can be counted through."""
    f = tm.Function("box", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N, 4])
    b = f.computation("b", {i: N, j: 4}, 2 * a[i, j])
    f.outputs(b)
    return f, b


def pair(reach: int = 0) -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Two rows of values; the second reads the first, so far ahead."""
    f = tm.Function("pair", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N + reach])
    p = f.computation("p", {i: N + reach}, 2 * a[i])
    read = p[i] + 1 if reach == 0 else p[i] + p[i + reach]
    q = f.computation("q", {i: N}, read)
    f.outputs(q)
    return f, p, q


def both() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """Two rows of values, neither of which reads the other."""
    f = tm.Function("both", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    p = f.computation("p", {i: N}, 2 * a[i])
    q = f.computation("q", {i: N}, a[i] + 1)
    f.outputs(p, q)
    return f, p, q


def three() -> tuple[tm.Function, tm.Computation, tm.Computation, tm.Computation]:
    """Three rows of values, none of which reads another."""
    f = tm.Function("three", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    p, q, s = (f.computation(name, {i: N}, scale * a[i]) for name, scale in (("p", 2), ("q", 3), ("s", 4)))
    f.outputs(p, q, s)
    return f, p, q, s


def blur() -> tuple[tm.Function, tm.Computation, tm.Computation]:
    """A blur of three rows: each reads three of the stage before."""
    f = tm.Function("blur", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N + 2, M])
    bx = f.computation("bx", {i: N + 2, j: M}, 2 * a[i, j])
    by = f.computation("by", {i: N, j: M}, bx[i, j] + bx[i + 1, j] + bx[i + 2, j])
    f.outputs(by)
    return f, bx, by


def rod(last: bool = False) -> tuple[tm.Function, tm.Computation]:
    """Heat in a rod, of which all times are kept, or the last."""
    f = tm.Function("rod", params=[T, N], assume="T >= 1 and N >= 3")
    start = f.input("start", tm.float32, [N])
    h = f.computation(
        "h",
        {t: T + 1, i: N},
        lambda h: tm.select((t == 0) | (i == 0) | (i == N - 1), start[i], h[t - 1, i - 1] + h[t - 1, i + 1]),
    )
    f.outputs(h[T, i] if last else h)
    return f, h


def seidel() -> tuple[tm.Function, tm.Computation]:
    """Values of which each reads one of its own time: no loop can run on threads as it stands."""
    f = tm.Function("seidel", params=[T, N], assume="T >= 1 and N >= 3")
    start = f.input("start", tm.float32, [N])
    h = f.computation(
        "h",
        {t: T + 1, i: N},
        lambda h: tm.select((t == 0) | (i == 0) | (i == N - 1), start[i], h[t, i - 1] + h[t - 1, i + 1]),
    )
    f.outputs(h)
    return f, h


def sums() -> tuple[tm.Function, tm.Reduction]:
    """The sums of rows."""
    f = tm.Function("sums", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.int32, [N, M])
    c = f.reduction("c", {i: N}, {k: M}, tm.sum, a[i, k])
    f.outputs(c)
    return f, c


def cases() -> tuple[tm.Function, tm.Computation]:
    """A row whose first value is another."""
    f = tm.Function("cases", params=[N], assume="N >= 2")
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {i: N}, tm.select(i == 0, a[i], 2 * a[i]))
    f.outputs(b)
    return f, b


# -- commands on loops

simple("split", line, lambda b: b.split(i, 4, i0, i1), N=10)
simple("tile", plane, lambda b: b.tile(i, j, 2, 3, i0, j0, i1, j1), N=4, M=6)
simple("coalesce", box, lambda b: b.coalesce(i, j, into=x), N=3)
simple("interchange", plane, lambda b: b.interchange(i, j), N=3, M=5)
simple("reorder", plane, lambda b: b.reorder(j, i), N=3, M=5)
simple("transform", plane, lambda b: b.transform([i, j], [[1, 1], [0, 1]], [w, j]), N=3, M=5)
simple("reverse", line, lambda b: b.reverse(i), N=8)
simple("parallelize", plane, lambda b: b.parallelize(i), N=3, M=5)
simple("vectorize", line, lambda b: b.vectorize(i, 4), N=10)
simple("unroll", line, lambda b: b.unroll(i, 2), N=6)
simple("unroll_and_jam", plane, lambda b: b.unroll_and_jam(i, 2), N=4, M=5)
simple("skew_for", seidel, lambda h: h.skew_for(tm.PARALLEL, t, i), T=3, N=6)
simple("set_schedule", plane, lambda b: b.set_schedule("{ [i, j] -> [d, j] : d = i + j }"), N=3, M=5)
simple("rfactor", sums, lambda c: c.update.split(k, 3, k0, k1).rfactor(k0), N=1, M=6)
simple("separate_at", line, lambda b: b.separate_at(i, [3]), N=8)
simple("separate_cases", cases, lambda b: b.separate_cases(), N=6)
simple("partition", plane, lambda b: b.partition(i, [2], [tm.gpu(tile=(2, 2)), tm.cores()]), N=4, M=4)
simple("tag_distribute", plane, lambda b: b.tag_distribute(i), N=3, M=5)
simple("gpu_tile", plane, lambda b: b.gpu_tile(i, j, 2, 2, i0, j0, i1, j1), N=4, M=4)


@example("skew")
def _skew() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, h = rod()
    yield f, {"T": 3, "N": 6}
    h.skew(t, i, 1)
    h.interchange(t, i)
    h.parallelize(t)
    yield f, {"T": 3, "N": 6}


@example("tag_gpu")
def _tag_gpu() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, b = line()
    b.split(i, 4, i0, i1)
    yield f, {"N": 8}
    b.tag_gpu(blocks=[i0], threads=[i1])
    yield f, {"N": 8}


@example("coarsen")
def _coarsen() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, b = line()
    b.split(i, 8, i0, i1)
    b.tag_gpu(blocks=[i0], threads=[i1])
    yield f, {"N": 8}
    b.coarsen(i1, 2, k)
    yield f, {"N": 8}


# -- commands on the order of statements

simple("after", pair, lambda p, q: q.after(p, i), N=6)
simple("before", both, lambda p, q: q.before(p, i), N=6)
simple("fuse", lambda: pair(1), lambda p, q: q.fuse(p, i, shift=True), N=6)


@example("shift")
def _shift() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, p, q = pair(1)
    q.after(p, i)
    yield f, {"N": 6}
    q.shift(i, 1)
    yield f, {"N": 6}


# -- commands that move computations


@example("compute_at")
def _compute_at() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, bx, by = blur()
    by.split(i, 2, i0, i1)
    yield f, {"N": 4, "M": 3}
    bx.compute_at(by, i0)
    yield f, {"N": 4, "M": 3}


@example("slide")
def _slide() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, bx, by = blur()
    bx.compute_at(by, i)
    yield f, {"N": 3, "M": 3}
    bx.slide(i)
    yield f, {"N": 3, "M": 3}


@example("reverse_compute_at")
def _reverse_compute_at() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f = tm.Function("scaled", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [N, M])
    c = f.reduction("c", {i: N}, {k: M}, tm.sum, a[i, k])
    out = f.computation("out", {i: N}, 2 * c[i])
    f.outputs(out)
    yield f, {"N": 3, "M": 4}
    out.reverse_compute_at(c.update, i)
    yield f, {"N": 3, "M": 4}


simple("inline", pair, lambda p, q: p.inline(), N=6)
simple("time_tile", lambda: rod(last=True), lambda h: h.time_tile(t, 2, {i: 4}, origin=1), T=4, N=8)

# -- commands on storage

simple("store_in", blur, lambda bx, by: bx.store_in([j, i]), N=3, M=3)


@example("store_at")
def _store_at() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, bx, by = blur()
    by.split(j, 2, j0, j1)
    by.interchange(i, j0)
    bx.compute_at(by, i)
    yield f, {"N": 3, "M": 4}
    bx.store_at(by, j0)
    yield f, {"N": 3, "M": 4}


@example("fold")
def _fold() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, bx, by = blur()
    by.fuse(bx, i, shift=True)
    yield f, {"N": 4, "M": 3}
    bx.fold(i, 3)
    yield f, {"N": 4, "M": 3}


@example("copy")
def _copy() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f = tm.Function("turn", params=[N, M], assume="N >= 1 and M >= 1")
    a = f.input("a", tm.float32, [M, N])
    b = f.computation("b", {i: N, j: M}, 2 * a[j, i])
    f.outputs(b)
    b.split(i, 2, i0, i1)
    yield f, {"N": 4, "M": 3}
    b.copy(a, [k, x], at=i0)
    yield f, {"N": 4, "M": 3}


@example("offload")
def _offload() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f = tm.Function("back", params=[T, N], assume="T >= 2 and N >= 1")
    a = f.input("a", tm.float32, [N])
    u = f.computation("u", {t: T, i: N}, lambda u: tm.select(t == 0, a[i], 2 * u[t - 1, i]))
    f.outputs(f.computation("v", {x: T, i: N}, u[T - 1 - x, i]))
    yield f, {"T": 6, "N": 2}
    u.offload(t, ahead=1)
    yield f, {"T": 6, "N": 2}


# -- transfers and messages


@example("create_xfer")
def _create_xfer() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f = tm.Function("line", params=[N], assume="N >= 1")
    a = f.input("a", tm.float32, [N])
    b = f.computation("b", {i: N}, 2 * a[i])
    f.outputs(b)
    b.split(i, 4, i0, i1)
    b.tag_gpu(blocks=[i0], threads=[i1])
    yield f, {"N": 8}
    f.create_xfer({i: N}, a[i], tm.CPU2GPU)
    f.create_xfer({i: N}, b[i], tm.GPU2CPU)
    yield f, {"N": 8}


@example("derive_transfers")
def _derive_transfers() -> Iterator[tuple[tm.Function, dict[str, int]]]:
    f, b = line()
    b.split(i, 4, i0, i1)
    b.tag_gpu(blocks=[i0], threads=[i1])
    yield f, {"N": 8}
    f.derive_transfers()
    yield f, {"N": 8}


def made(name: str) -> str:
    """The picture of a command."""
    states = EXAMPLES[name]()
    sides, panels, given = list[Drawn](), list[list[Drawn]](), list[str]()
    for f, sizes in states:
        scene = f.show(**sizes).scenes[-1]
        sides.append(drawn(f, scene))
        panels.append(buffers(scene))
        given = list(scene.commands)[len(given) :]
    if panels[0] != panels[1]:
        sides = [stacked([side, *in_rows(each)]) for side, each in zip(sides, panels, strict=True)]
    return before_and_after(sides[0], given, sides[1], f"{name}: a program before and after the command")


def main() -> int:
    """Write all pictures, or compare them with those that are there."""
    pictures = {FOLDER / f"{name}.svg": made(name) for name in EXAMPLES}
    if sys.argv[1:] == ["--check"]:
        kept = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")}
        return 0 if kept == pictures else 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in set(FOLDER.glob("*.svg")) - set(pictures):
        path.unlink()
    for path, picture in pictures.items():
        path.write_text(picture, encoding="utf-8")
    print(f"wrote {len(pictures)} pictures to {FOLDER.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
