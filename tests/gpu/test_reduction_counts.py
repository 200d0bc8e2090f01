"""What kernels of reductions do, counted: loads of each term, atomic updates, and instructions of inner loops."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tiramisu_py.algorithm.evaluate.given_values import checked_arguments
from tiramisu_py.function.scheduled_values import interpreted
from tiramisu_py.interpret.devices.race_detector import AccessHistory, Kind
from tiramisu_py.toolchain.compilers.cache import open_cache
from tiramisu_py.toolchain.compilers.images import Architecture
from tiramisu_py.toolchain.compilers.nvcc import find_nvcc

N, K = tm.params("N K")
i, k, b, k1, k0, t = tm.iters("i k b k1 k0 t")
#: The shape of each form, and the iterators of its values. The columns are a constant number: else each load has an
#: address of its own.
FORMS = {"all": ((K,), ""), "rows": ((N, K), "i"), "columns": ((K, 4096), "i")}
#: Instructions of PTX that are neither loads nor the reduction's own arithmetic, for each term.
OTHERS = 1.5


def rows(dtype: tm.DType = tm.float32) -> tuple[tm.Function, Any]:
    """The sum of each row."""
    f = tm.Function("rows", params=[N, K])
    a = f.input("a", dtype, [N, K])
    s = f.reduction("s", {i: N}, {k: K}, tm.sum, a[i, k])
    f.outputs(s)
    return f, s


def over_blocks(across: Any) -> tm.Function:
    """A row on several blocks of 64 terms and 32 threads."""
    f, s = rows(tm.int32)
    s.update.split(k, 64, b, k1)
    s.update.split(k1, 32, k0, t)
    tag = {"blocks": [i, b], "threads": [t], "combine": tm.TREE, "across": across}
    if across is tm.ATOMIC:
        s.init.tag_gpu(blocks=[i])
        s.update.tag_gpu(**tag)
    else:
        s.tag_gpu(**tag)
    f.derive_transfers()
    return f


def in_a_block() -> tm.Function:
    """A row on a block."""
    f, s = rows(tm.int32)
    s.update.split(k, 32, k0, t)
    s.tag_gpu(blocks=[i], threads=[t], combine=tm.TREE)
    f.derive_transfers()
    return f


def counted(f: tm.Function, monkeypatch: pytest.MonkeyPatch, **given: Any) -> dict[tuple[str, Kind], Counter[Any]]:
    """How often kernels of a function access each element of each array, in each way; the result is right."""
    found: dict[tuple[str, Kind], Counter[Any]] = {}
    record = AccessHistory.record

    def counting(self: Any, name: str, element: Any, kind: Kind, *more: Any) -> None:
        found.setdefault((name.split("@", maxsplit=1)[0], kind), Counter())[element] += 1
        record(self, name, element, kind, *more)

    monkeypatch.setattr(AccessHistory, "record", counting)
    checked = checked_arguments(f.algorithm, given, {})
    np.testing.assert_array_equal(interpreted(f.show("lowered"), checked)[0], f.evaluate(**given))
    return found


@pytest.mark.parametrize("across", [tm.ATOMIC, tm.TWO_PASS, None], ids=["atomic", "two passes", "a block"])
def test_a_term_is_loaded_once_and_a_block_adds_once(across: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f = in_a_block() if across is None else over_blocks(across)
    a = np.random.default_rng(0).integers(-99, 99, (2, 150), np.int32)
    found = counted(f, monkeypatch, a=a)
    assert set(found["a", Kind.READ].values()) == {1} and len(found["a", Kind.READ]) == a.size
    atomics = {name: of for (name, kind), of in found.items() if kind is Kind.ATOMIC}
    if across is tm.ATOMIC:
        blocks = -(-150 // 64)
        assert set(atomics) == {"s"} and set(atomics["s"].values()) == {2 * blocks}  # reads, and writes
    else:
        assert not atomics


def inner_loop(ptx: str) -> list[str]:
    """The instructions between a label and the jump back to it, of the loop with the most loads."""
    lines = [line.strip() for line in ptx.splitlines()]
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.startswith("$") and line.endswith(":")}
    found: list[list[str]] = []
    for at, line in enumerate(lines):
        target = re.search(r"\bbra(?:\.uni)?\s+(\$\w+);", line)
        if target and labels.get(target[1], at) < at:
            body = lines[labels[target[1]] + 1 : at + 1]
            found.append([each for each in body if each.endswith(";") and not each.startswith((".", "//"))])
    return max(found, key=lambda body: sum("ld.global" in each for each in body))


def is_offset(instruction: str, body: list[str]) -> bool:
    """Whether it adds a constant to an address for one load, which ptxas does in the load: `LDG [R2 + 0x200]`."""
    added = re.fullmatch(r"add\.s64\s+(%rd\d+), %rd\d+, -?\d+;", instruction)
    uses = [each for each in body if added and re.search(rf"{added[1]}\b", each) and each != instruction]
    return len(uses) == 1 and f"[{added[1]}]" in uses[0] if added else False


@pytest.mark.parametrize("form", FORMS)
def test_an_inner_loop_has_few_instructions_beside_loads_and_additions(form: str) -> None:
    compiler = find_nvcc(open_cache())
    if isinstance(compiler, str):
        pytest.skip(compiler)
    shape, values = FORMS[form]
    f = tm.Function("reduced", params=[N, K] if form == "rows" else [K], assume="K % 4 == 0")
    a = f.input("a", tm.float32, list(shape))
    indices = {"all": (k,), "rows": (i, k), "columns": (k, i)}[form]
    s = f.reduction("s", {i: 4096 if form == "columns" else N} if values else {}, {k: K}, tm.sum, a[indices])
    f.outputs(s)
    tm.recipes.reduction(s, on=tm.gpu())
    f.derive_transfers()
    flags = ("-std=c++17", "--fmad=false")
    ptx, _ = compiler.compile("reduced.cu", f.source(), Architecture(80, virtual=True), flags)
    body = inner_loop(ptx.decode())
    loads = [each for each in body if "ld.global" in each]
    terms = sum(4 if ".v4" in each else 2 if ".v2" in each else 1 for each in loads)
    added = [each for each in body if re.match(r"(add|fma)\.(rn\.)?f32", each)]
    assert len(added) >= terms
    assert not [each for each in body if re.match(r"(div|rem)\.", each)]
    offsets = [each for each in body if is_offset(each, body)]
    renamed = [each for each in body if each.startswith("mov.b32")]  # the bits of a load by inline PTX: none in SASS
    others = len(body) - len(loads) - len(offsets) - len(renamed) - terms
    assert others / terms <= OTHERS, (terms, body)
