"""A sum over two GPUs: `rfactor` gives each its partial results, and derived copies bring them to one of them."""

from __future__ import annotations

import numpy as np
import pytest

import tiramisu_py as tm

(N,) = tm.params("N")
g, k, b, m, t, b0, b1 = tm.iters("g k b m t b0 b1")


def halves(across: object = tm.LAST_BLOCK) -> tm.Function:
    """The sum of two arrays of one length, each on a GPU of its own, 512 terms a block; GPU 0 adds up the results."""
    f = tm.Function("halves", params=[N])
    a = f.input("a", tm.float32, [2, N])
    s = f.reduction("s", {}, {g: 2, k: N}, tm.sum, a[g, k], determinism="everywhere")
    f.outputs(s)
    s.update.split(k, 512, b, k)
    part = s.rfactor(g, b, name="part")
    part.update.split(k, 64, m, t)
    starts_and_terms = part.separate_at(g, [1])
    for device in (0, 1):
        start, terms = starts_and_terms[device], starts_and_terms[2 + device]
        start.tag_gpu(blocks=[g, b], device=device)
        terms.tag_gpu(blocks=[g, b], threads=[t], combine=tm.TREE, device=device)
    s.update.split(b, 64, b0, b1)
    s.tag_gpu(blocks=[g], threads=[b1], combine=tm.TREE, across=across)
    return f


@pytest.mark.parametrize("across", [tm.LAST_BLOCK, tm.TWO_PASS])
def test_two_gpus_add_up_with_the_same_bits_in_each_call(across: object) -> None:
    f = halves(across)
    f.derive_transfers()
    assert f.check().ok
    text = f.source()["halves.c"]
    assert text.count('tm_gpu_copy(gpu, "part') == 1  # the results of GPU 1 alone
    kernel = f.compile(device="simulator", sanitize=True)
    for count in (0, 1, 513, 5000):
        given = np.random.default_rng(count).standard_normal((2, count)).astype(np.float32)
        found = {kernel.seeded(seed, "lazy")(given).tobytes() for seed in range(4)}
        assert found == {f.evaluate(a=given, as_scheduled=True).tobytes()}
        np.testing.assert_allclose(kernel(given), given.sum(dtype=np.float64), rtol=1e-3, atol=1e-3)


def test_partial_results_left_on_another_gpu_are_refused() -> None:
    left = "reads part[1, 0] in the memory of GPU 0, but it is only in the memory of GPU 1: no transfer brings it"
    (found,) = [v for v in halves().check().violations if left in v.message]
    assert found.kind == "communication" and dict(found.witness.params) == {"N": 1}
    assert found.repair.startswith("halves.derive_transfers(), or halves.create_xfer(")
    assert "tm.GPU2GPU, device=1, to_device=0" in found.repair
