"""Random block programs: kernels in the words of `tiramisu_py.language`, most of them right, some with one mistake.

A kernel has a grid of one to three axes, loads under masks, of rows, columns and transposed blocks, arithmetic element
by element, reductions and prefixes along an axis, a loop with sums, products or other recurrences, and one or two
arrays that it fills, or adds to, in each way of combining. A mistake is a mask that is left out, too wide or too
narrow, a block that is too far from the next one, a grid that is too small, or an index that is moved. What may be
wrong is part of what is stored: a load that nothing uses is never done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.oracle.generators.script import Script, Seed, choices
from tiramisu_py.errors import CompilerDefect, TiramisuError

#: How often a kernel has a mistake, and what may be wrong in it.
MISTAKES = 0.3
WRONG = ("load mask", "store mask", "step", "grid", "index", "both")
#: The arrays that kernels read, with N rows, M columns and K terms.
READ = {"x": "[N, M]", "t": "[M, N]", "r": "[M]", "a": "[N, K]", "b": "[K, M]"}
#: The extents of blocks, and how many programs share a sum.
EXTENTS = {"TM": [1, 2, 4], "TN": [2, 4], "TK": [1, 2, 4], "SPLIT": [1, 1, 1, 2, 3]}


@dataclass
class Kernel:
    """The lines of a kernel that is being written, and its blocks of the shape of a tile."""

    rng: random.Random
    dtype: str
    mistake: str
    lines: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)

    def made(self, value: str) -> None:
        """One more block, in a variable of its own."""
        name = f"v{len(self.blocks)}"
        self.lines.append(f"{name} = {value}")
        self.blocks.append(name)

    def spoiled(self, name: str, right: str, *wrong: str) -> str:
        """What is right, or where this is the kernel's mistake something else."""
        return self.rng.choice(wrong) if self.mistake == name else right

    def some(self, most: int) -> None:
        """Up to so many blocks made of others."""
        for _ in range(self.rng.randrange(most + 1)):
            a, b = self.rng.choice(self.blocks), self.rng.choice(self.blocks)
            along = [
                f"{a} + tl.sum({b}, axis=1)[:, None]", f"{a} - tl.max({b}, axis=0)[None, :]",
                f"tl.cumsum({a}, axis={self.rng.randrange(2)})", f"{a} + tl.min({b}, axis=1)[:, None]",
                f"tl.trans(tl.trans({a}) * 2)", f"tl.reshape(tl.reshape({a}, (TM * TN,)), (TM, TN))",
            ]  # fmt: skip
            each = [
                f"{a} + {b}", f"{a} - {b}", f"{a} * 2", f"tl.maximum({a}, {b})", f"tl.minimum({a}, -{b})",
                f"tl.where({a} > {b}, {a}, 1)", f"tl.where(rows < cols, {a}, {b})", f"tl.abs({a})",
                f"{a} + (rows - cols).to(tl.{self.dtype})", f"{a} * 0.5" if self.dtype == "float32" else f"{a} & 3",
            ]  # fmt: skip
            self.made(self.rng.choice(along if self.rng.random() < 0.4 else each))


def random_block_script(seed: Seed) -> Script:
    """A function with the programs of one random kernel, scheduled by the recipe, or as declared."""
    return first_launched(_drawn, seed)


def first_launched(drawn: Callable[[random.Random], Script | None], seed: Seed) -> Script:
    """The first of twenty kernels that are drawn which can be launched."""
    rng = choices(seed)
    found = next(filter(None, (drawn(rng) for _ in range(20))), None)
    if found is None:
        raise ValueError("no kernel of twenty can be launched")
    return found


def _drawn(rng: random.Random) -> Script | None:
    mistake = rng.choice(WRONG) if rng.random() < MISTAKES else ""
    kernel = Kernel(rng, rng.choice(["float32", "float32", "int32"]), mistake)
    sizes = {name: rng.choice(among) for name, among in EXTENTS.items()}
    outputs = ["y", "z"] if rng.random() < 0.2 else ["y"]
    combine = rng.choice(["ORDERED", "TWO_PASS", "LAST_BLOCK", "ATOMIC"]) if sizes["SPLIT"] > 1 else ""
    _body(kernel, len(outputs) > 1, combine)
    script = Script()
    script.do("import tiramisu_py.language as tl")
    arguments = [*map(str.upper, [*READ, *outputs]), *(f"{name}: tl.constexpr" for name in sizes)]
    body = "".join(f"    {line}\n" for line in kernel.lines)
    script.do(f"@tm.jit\ndef kernel({', '.join(arguments)}):\n{body}")
    script.do("N, M, K = tm.params('N M K')")
    script.do("f = tm.Function('f', params=[N, M, K])")
    for name, shape in READ.items():
        script.do(f"{name} = f.input('{name}', tm.{kernel.dtype}, {shape})")
    for name in outputs:
        script.do(f"{name} = f.array('{name}', tm.{kernel.dtype}, [N, M])")
    rows = kernel.spoiled("grid", "tl.cdiv(n, {TM})", "n // {TM}", "tl.cdiv(n, {TM}) + 1").format(**sizes)
    script.do(f"constants = {sizes!r}")
    script.do(f"grid = lambda n, m: ({rows}, tl.cdiv(m, {sizes['TN']}), {sizes['SPLIT']})")
    if not done(script, [
        f"run = kernel[grid(N, M)]({', '.join([*READ, *outputs])}, **constants)", f"f.outputs({', '.join(outputs)})",
    ]):  # fmt: skip
        return None
    script.declared()
    _schedule(script, rng)
    return script


def done(script: Script, lines: Sequence[str]) -> bool:
    """Execute lines; False where one is refused."""
    try:
        for line in lines:
            script.do(line)
    except CompilerDefect:
        raise
    except TiramisuError:
        return False
    return True


def _body(kernel: Kernel, fills_two: bool, combine: str) -> None:
    rng, wrong, lines = kernel.rng, kernel.spoiled, kernel.lines
    lines += ["N, M = X.shape", "K = A.shape[1]", "p0, p1 = tl.program_id(0), tl.program_id(1)"]
    if rng.random() < 0.2 and not combine:
        of_grid = ", ".join(f"tl.{word}({axis})" for word in ("program_id", "num_programs") for axis in (0, 1))
        lines[-1] = f"p0, p1 = tl.swizzle2d({of_grid}, 2)"
    step = wrong("step", "TM", "TM + 1", "(TM - 1)")
    lines.append(f"rm, rn = p0 * {step} + tl.arange(0, TM), p1 * TN + tl.arange(0, TN)")
    low = ""
    if rng.random() < 0.15:
        lines.append("rm = N - 1 - rm")
        low = "(rm[:, None] >= 0) & "
    lines += ["rows, cols = rm[:, None], rn[None, :]", f"inside = {low}(rows < N) & (cols < M)"]
    mask = wrong("load mask", "inside", f"{low}(rows < N)", f"{low}(rows < N + 1) & (cols < M)")
    moved = wrong("index", "rows", "rows + 1", "rows - 1")
    kernel.made(f"tl.load(X[{moved}, cols], mask={mask}, other={rng.choice(['0', '1', '-3'])})")
    if rng.random() < 0.5:
        kernel.made("tl.trans(tl.load(T[rn[:, None], rm[None, :]], mask=tl.trans(inside), other=0))")
    if rng.random() < 0.4:
        row = "tl.load(R[rn], mask=rn < M, other=2)[None, :]"
        kernel.made(f"{row} + tl.zeros((TM, TN), tl.{kernel.dtype})")
    kernel.some(2)
    if combine or rng.random() < 0.5:
        _loop(kernel, low)
    kernel.some(2)
    stored = wrong("store mask", "inside", f"{low}(rows < N + 1) & (cols < M)", f"{low}(rows < N) & (cols < M - 1)")
    word, how = ("accumulate", f", combine=tm.{combine}") if combine else ("store", "")
    last = kernel.blocks[-1] if len(kernel.blocks) == 1 else f"{kernel.blocks[-1]} + {kernel.blocks[0]}"
    lines.append(f"tl.{word}(Y[rows, cols], {last}, mask={stored}{how})")
    if fills_two:
        second = wrong("both", "Z", "Y")
        lines.append(f"tl.{word}({second}[rows, cols], {rng.choice(kernel.blocks)}, mask=inside{how})")


def _loop(kernel: Kernel, low: str) -> None:
    """A loop along K that carries a block, or two."""
    rng, two = kernel.rng, kernel.rng.random() < 0.3
    begin = rng.choice(["0", "0", "0", "1"])
    after = [
        "tl.dot(a, b, acc)", "acc + tl.sum(a, axis=1)[:, None]", "tl.maximum(acc, tl.sum(b, axis=0)[None, :])",
        "acc * 2 + tl.dot(a, b)", "tl.minimum(acc, tl.dot(a, b)) + 1",
    ]  # fmt: skip
    if two:
        after = ["tl.dot(a, b, acc - (high - top))", "acc + (high - top)", "tl.where(high > top, acc + high, acc)"]
    kernel.lines += [
        f"acc = tl.full((TM, TN), {begin}, tl.{kernel.dtype})",
        *([f"top = tl.full((TM, 1), 0, tl.{kernel.dtype})"] if two else []),
        "for k in tl.range(tl.program_id(2) * TK, K, SPLIT * TK):",
        "    rk = k + tl.arange(0, TK)",
        f"    a = tl.load(A[rows, rk[None, :]], mask={low}(rows < N) & (rk[None, :] < K), other=0)",
        "    b = tl.load(B[rk[:, None], cols], mask=(rk[:, None] < K) & (cols < M), other=0)",
        *(["    high = tl.maximum(top, tl.max(a, axis=1)[:, None])"] if two else []),
        f"    acc = {rng.choice(after)}",
        *(["    top = high"] if two else []),
    ]
    kernel.made("acc + top" if two and rng.random() < 0.5 else "acc")


def _schedule(script: Script, rng: random.Random) -> None:
    where = rng.choice(["cores", "cores", "gpu", "gpu", ""])
    if where == "cores":
        script.attempt("tm.recipes.blocks(run, on=tm.cores())")
    elif where == "gpu":
        warps, stages = rng.choice([1, 2]), rng.choice([1, 1, 2])
        if script.attempt(f"tm.recipes.blocks(run, on=tm.gpu(), num_warps={warps}, num_stages={stages})"):
            script.attempt("f.derive_transfers()")
