"""Run in a process of its own: gradients of functions under JAX, beside JAX's own."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import tiramisu_py as tm
import tiramisu_py.jax
from tests.rewriting import programs


def own_rod(u0: Any, c: Any, steps: int) -> Any:
    u = u0
    for _ in range(steps):
        inner = u[1:-1] + c[1:-1] * (u[:-2] - 2 * u[1:-1] + u[2:])
        u = u.at[1:-1].set(inner)
    return u * u


def own_softmax(x: Any) -> Any:
    return jax.nn.softmax(x, axis=1)


def main() -> None:
    """Prints a word for each step that is right."""
    jax.config.update("jax_enable_x64", True)
    numbers = np.random.default_rng(0)
    u0, c, w = (numbers.random(7) for _ in range(3))
    rod = tiramisu_py.jax.function(tm.vjp(programs.PROGRAMS["rod"]()))
    np.testing.assert_allclose(rod(u0, 0.2 * c, T=5), own_rod(jax.numpy.asarray(u0), 0.2 * c, 5), rtol=1e-12)
    found = jax.grad(lambda u0, c: (rod(u0, c, T=5) * w).sum(), argnums=(0, 1))(u0, 0.2 * c)
    expected = jax.grad(lambda u0, c: (own_rod(u0, c, 5) * w).sum(), argnums=(0, 1))(u0, 0.2 * c)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    print("grad")
    x, by = numbers.standard_normal((3, 4)), numbers.standard_normal((3, 4))
    soft = tiramisu_py.jax.function(tm.vjp(programs.PROGRAMS["softmax"]()))
    value, gradient = jax.jit(jax.value_and_grad(lambda x: (soft(x * x) * by).sum()))(x)
    other, own = jax.value_and_grad(lambda x: (own_softmax(x * x) * by).sum())(x)
    np.testing.assert_allclose([value], [other], rtol=1e-12)
    np.testing.assert_allclose(gradient, own, rtol=1e-10, atol=1e-12)
    print("jit")
    f = programs.PROGRAMS["edges"]()
    edges = tiramisu_py.jax.function(tm.vjp(f, wrt=["x"]))
    src, dst = (numbers.integers(0, 3, 6).astype(np.int32) for _ in range(2))
    weight, nodes = numbers.random(6), numbers.random(3)
    found = jax.grad(lambda nodes, weight: edges(src, dst, weight, nodes).sum(), argnums=(0, 1))(nodes, weight)
    np.testing.assert_allclose(found[0], np.bincount(src, weight, 3), rtol=1e-12)
    assert not np.any(found[1])  # not asked for
    print("some")
    try:
        jax.grad(lambda x: jax.grad(lambda y: (soft(y) * by).sum())(x).sum())(x)
    except tm.UnsupportedError as error:
        assert "the second derivative of softmax through JAX" in str(error)
        print("twice")


if __name__ == "__main__":
    main()
