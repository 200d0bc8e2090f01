"""Random block programs over rows: a program for each row, or for four, whose lanes are all of its columns.

Loads under masks of several kinds are reduced along the row, up to three times, and what is stored is made of elements
and of these results; so are softmax, norms and losses. Two in ten have a mistake: a mask that is left out or too wide,
or a row that is not there. The first block, which may be wrong, is part of what is stored: a load that nothing uses is
never done.
"""

from __future__ import annotations

import random

from tests.oracle.generators.block_random import done, first_launched
from tests.oracle.generators.script import Script, Seed

#: How often a kernel has a mistake, and where.
MISTAKES = 0.2
WRONG = ("load mask", "store mask", "index")
#: The lanes of a program: a row has no more columns.
LANES = 16
#: What a load leaves out, beside what is outside of the row.
MASKS = (
    "lane < M", "lane < M", "lane < M", "lane < M - 1", "(lane >= 1) & (lane < M)", "lane + 2 < M",
    "(lane < M) & (lane < 9)", "(lane < M) & (lane < M + 1 - row)",
)  # fmt: skip


class RowKernel:
    """The lines of a kernel that is being written, for one row or for a block of `rows`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rows = rng.choice([1, 1, 4])
        self.mistake = rng.choice(WRONG) if rng.random() < MISTAKES else ""
        self.names: list[str] = []
        row = "tl.program_id(0)" if self.rows == 1 else f"(tl.program_id(0) * {self.rows} + tl.arange(0, {self.rows}))"
        self.shape = "LANES" if self.rows == 1 else f"{self.rows}, LANES"
        self.lines = [
            "N, M = X.shape", f"row, lane = {row}{'' if self.rows == 1 else '[:, None]'}, tl.arange(0, LANES)",
        ]  # fmt: skip

    def within(self, mask: str) -> str:
        """A mask in a row that is there."""
        return mask if self.rows == 1 else f"(row < N) & ({mask})"

    def load(self) -> None:
        """One more block: a part of a row of X or Z, beside it by a lane, or of the weights."""
        place = self.rng.choice(["X[row, lane]", "X[row, lane]", "Z[row, lane]", "W[lane]", "X[row, lane + 1]"])
        mask = {"X[row, lane + 1]": "lane + 1 < M", "W[lane]": "lane < M"}.get(place) or self.rng.choice(MASKS)
        if self.mistake == "load mask" and not self.names:
            mask = self.rng.choice(["lane < M + 1", "lane >= 0"])
        if self.mistake == "index" and not self.names:
            place = "X[row + 1, lane]"
        whole = mask if place == "W[lane]" else self.within(mask)
        value = f"tl.load({place}, mask={whole}, other={self.rng.randint(-3, 3)})"
        self.lines.append(f"v{len(self.names)} = {value} + tl.zeros(({self.shape},), tl.float32)")
        self.names.append(f"v{len(self.names)}")

    def value(self, depth: int = 2) -> str:
        """An expression of blocks, element by element."""
        if depth == 0 or self.rng.random() < 0.3:
            return self.rng.choice(self.names)
        a, b = self.value(depth - 1), self.value(depth - 1)
        return self.rng.choice([
            f"({a} + {b})", f"({a} - {b})", f"({a} * 2)", f"tl.maximum({a}, {b})", f"tl.minimum({a}, {b})",
            f"tl.where(lane < {self.rng.choice(['M', 'M - 2', '3'])}, {a}, {b})",
        ])  # fmt: skip

    def reduce(self, number: int) -> None:
        """A result for each row, and a block in which it is."""
        word, axis = self.rng.choice(["sum", "sum", "max", "min"]), 0 if self.rows == 1 else 1
        column = "" if self.rows == 1 else "[:, None]"
        self.lines.append(f"r{number} = tl.{word}({self.value()}, axis={axis}){column}")
        self.names.append(f"({self.value(1)} - r{number})")


def random_row_script(seed: Seed) -> Script:
    """A function with the programs of one random kernel over rows, for cores or as declared."""
    return first_launched(_drawn, seed)


def _drawn(rng: random.Random) -> Script | None:
    kernel = RowKernel(rng)
    for _ in range(rng.randint(1, 3)):
        kernel.load()
    for number in range(rng.randint(1, 3)):
        kernel.reduce(number)
    mask = "lane < M + 1" if kernel.mistake == "store mask" else "lane < M"
    kernel.lines.append(f"tl.store(Y[row, lane], {kernel.value()} + v0, mask={kernel.within(mask)})")
    script = Script()
    script.do("import tiramisu_py.language as tl")
    body = "".join(f"    {line}\n" for line in kernel.lines)
    script.do(f"@tm.jit\ndef kernel(X, Z, W, Y, LANES: tl.constexpr):\n{body}")
    script.do("N, M = tm.params('N M')")
    script.do(f"f = tm.Function('f', params=[N, M], assume='M <= {LANES}')")
    for name, shape in {"x": "[N, M]", "z": "[N, M]", "w": "[M]"}.items():
        script.do(f"{name} = f.input('{name}', tm.float32, {shape})")
    script.do("y = f.array('y', tm.float32, [N, M])")
    script.do(f"constants = {{'LANES': {LANES}}}")
    script.do("grid = lambda n, m: (n,)" if kernel.rows == 1 else f"grid = lambda n, m: (tl.cdiv(n, {kernel.rows}),)")
    if not done(script, ["run = kernel[grid(N, M)](x, z, w, y, **constants)", "f.outputs(y)"]):
        return None
    script.declared()
    if rng.random() < 0.8:
        script.attempt("tm.recipes.blocks(run, on=tm.cores())")
    return script
