"""PyTorch and JAX themselves: their arrays in and out without copies, as custom operators and under `jax.jit`.

The functions of the guide, chapter Tools, are those that run here.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "guide" / "14-tools.md"
R, C = tm.params("R C")
r, c = tm.iters("r c")


@pytest.fixture(name="torch")
def _torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")


@lru_cache
def kernel() -> Any:
    """Means of 3 x 3 pixels, as in the guide."""
    f = tm.Function("means", params=[R, C])
    image = f.input("image", tm.float32, [R + 2, C + 2])
    down = f.computation("down", {r: R, c: C + 2}, (image[r, c] + image[r + 1, c] + image[r + 2, c]) / 3)
    f.outputs(f.computation("by", {r: R, c: C}, (down[r, c] + down[r, c + 1] + down[r, c + 2]) / 3))
    return f.compile()


def picture() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((12, 17), dtype=np.float32)


def of_the_guide(**names: Any) -> dict[str, Any]:
    """What the guide's block on PyTorch and JAX defines, with `kernel`: the part of the library that is given."""
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    block = next(each for each in blocks if "torch.library" in each)
    torch_part, jax_part = block.split("def blurred", 1)
    defined = {"kernel": kernel(), **names}
    exec(torch_part if "torch" in names else f"def blurred{jax_part}", defined)
    return defined


def test_a_tensor_of_pytorch_is_read_where_it_is_and_gives_a_tensor(torch: Any) -> None:
    result = kernel()(torch.from_numpy(picture()))
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), kernel()(picture()))


def test_a_tensor_that_is_passed_is_written_in_place(torch: Any) -> None:
    out = torch.zeros(10, 15)
    address = out.data_ptr()
    assert kernel()(torch.from_numpy(picture()), by=out) is out
    assert out.data_ptr() == address
    np.testing.assert_array_equal(out.numpy(), kernel()(picture()))


def test_a_kernel_is_a_custom_operator_of_pytorch(torch: Any) -> None:
    blur = of_the_guide(torch=torch)["blur"]
    image = torch.from_numpy(picture())
    np.testing.assert_array_equal(blur(image).numpy(), kernel()(picture()))
    torch.library.opcheck(blur, (image,), test_utils=("test_schema", "test_faketensor"))


def test_kernels_take_and_give_arrays_of_jax_and_run_under_jit() -> None:
    """In a process of its own: JAX has threads, and other tests fork."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed: pip install 'tiramisu_py[interop]'")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.toolchain.calls.with_jax"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["arrays", "callback", "jit", "between"]
