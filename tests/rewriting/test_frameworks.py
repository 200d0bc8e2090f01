"""Gradients in PyTorch and JAX, beside those that these compute themselves."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiramisu_py as tm
from tests.rewriting import programs
from tiramisu_py.function.framework_calls import FrameworkCalls

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(name="torch")
def _torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tiramisu_py[interop]'")


@pytest.mark.slow
def test_gradients_are_those_of_jax() -> None:
    """In a process of its own: JAX has threads, and other tests fork."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed: pip install 'tiramisu_py[interop]'")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.rewriting.with_jax"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["grad", "jit", "some", "twice"]


@pytest.fixture(name="judged_by_jax", scope="module")
def _judged_by_jax() -> Iterator[Callable[[str], str]]:
    """Asks a process of its own, which has JAX, for its judgement of a program."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed: pip install 'tiramisu_py[interop]'")
    command = [sys.executable, "-m", "tests.rewriting.jax_forms"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        into, answers = process.stdin, process.stdout

        def ask(name: str) -> str:
            into.write(f"{name}\n")
            into.flush()
            return answers.readline().strip()

        yield ask
        into.close()


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_values_and_gradients_are_those_of_jax(name: str, judged_by_jax: Callable[[str], str]) -> None:
    """In float64, to 1e-10; those of whole numbers are equal."""
    answer = judged_by_jax(name)
    assert answer == "right", ast.literal_eval(answer) if answer else "the process has ended"


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_framework_that_is_missing_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    module = importlib.import_module(f"tiramisu_py.{name}")
    with pytest.raises(tm.UnsupportedError, match=r"is not installed: pip install 'tiramisu_py\[interop\]'"):
        module.function(tm.vjp(programs.PROGRAMS["rod"]()))
    with pytest.raises(tm.ArgumentError, match=r"function takes what tm\.vjp returns, not <function rod>"):
        module.function(programs.PROGRAMS["rod"]())


def test_a_framework_gives_arrays_in_order_and_sizes_by_name() -> None:
    g = tm.vjp(programs.PROGRAMS["product_of_sizes"]())
    calls = FrameworkCalls(g)
    x, w = np.arange(6.0), np.arange(6.0).reshape(2, 3)
    params = calls.sizes([(6,)], {"N": 2, "M": 3})
    (out,) = calls.forwards([x], params)
    assert [(out.shape, out.dtype)] == calls.forms(params)
    (gradient,) = calls.backwards([x], [w], params)
    np.testing.assert_array_equal(gradient, 2 * x * w.ravel())  # in the shape of the input
    with pytest.raises(tm.ArgumentError, match="flat has no size K: it has N, M"):
        calls.sizes([(6,)], {"K": 3})
    with pytest.raises(tm.ArgumentError, match="flat takes a, and 2 arrays were given"):
        calls.sizes([(6,), (3,)], {})


def test_a_function_is_an_operator_of_pytorch_with_gradients(torch: Any) -> None:
    from tiramisu_py.torch import function  # noqa: PLC0415

    rod = function(tm.vjp(programs.PROGRAMS["rod"]()))
    u0, c = (torch.rand(6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda u0, c: rod(u0, c, T=3), (u0, c))
    soft = function(tm.vjp(programs.PROGRAMS["softmax"]()))
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    by = torch.randn(3, 4, dtype=torch.float64)
    (found,) = torch.autograd.grad((soft(x) * by).sum(), x)
    (expected,) = torch.autograd.grad((torch.softmax(x, 1) * by).sum(), x)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    compiled = torch.compile(lambda x: soft(x * x).sum(), fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.softmax(x * x, 1).sum())


@pytest.mark.parametrize("name", ["softmax", "rod"])
def test_operators_forwards_and_backwards_pass_every_check_of_pytorch(torch: Any, name: str) -> None:
    from tiramisu_py.torch.functions import new_number, registered  # noqa: PLC0415

    calls, number = FrameworkCalls(tm.vjp(programs.PROGRAMS[name]())), new_number()
    forwards = registered(calls, number)
    shape, given = ((3, 4), {}) if name == "softmax" else ((6,), {"T": 3})
    tensors = [torch.rand(shape, dtype=torch.float64, requires_grad=True) for _ in calls.inputs]
    params = calls.sizes([shape] * len(tensors), given)
    sizes = [params[each] for each in calls.params]
    assert set(torch.library.opcheck(forwards, (tensors, sizes)).values()) == {"SUCCESS"}
    made = [each.detach() for each in forwards(tensors, sizes)]
    pool = {**dict(zip(calls.inputs, tensors, strict=True)), **dict(zip(calls.made, made, strict=True))}
    saved = [pool[each].detach() for each in calls.needed]
    weights = [torch.rand_like(made[calls.made.index(each)]) for each in calls.weights]
    backwards = getattr(torch.ops.tiramisu_py, f"{calls.name}_{number}_backward").default
    assert set(torch.library.opcheck(backwards, ([*saved, *weights], sizes)).values()) == {"SUCCESS"}


def test_a_second_derivative_through_pytorch_is_refused_by_name(torch: Any) -> None:
    from tiramisu_py.torch import function  # noqa: PLC0415

    soft = function(tm.vjp(programs.PROGRAMS["softmax"]()))
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(soft(x).square().sum(), x, create_graph=True)
    with pytest.raises(tm.UnsupportedError, match=r"second derivative of .* differentiate twice before: tm\.vjp"):
        torch.autograd.grad(first.sum(), x)


def test_a_tensor_that_is_elsewhere_is_refused(torch: Any) -> None:
    from tiramisu_py.torch import function  # noqa: PLC0415

    soft = function(tm.vjp(programs.PROGRAMS["softmax"]()))
    with pytest.raises(tm.ArgumentError, match=r"is on meta, and softmax runs on cores: give x\.cpu\(\)"):
        soft(torch.empty(3, 4, dtype=torch.float64, device="meta"))


def test_a_tensor_that_is_changed_before_the_backward_is_refused_by_pytorch(torch: Any) -> None:
    from tiramisu_py.torch import function  # noqa: PLC0415

    rod = function(tm.vjp(programs.PROGRAMS["rod"]()))
    u0, c = torch.rand(6, dtype=torch.float64, requires_grad=True), torch.rand(6, dtype=torch.float64)
    loss = rod(u0, c, T=3).sum()
    c += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
