"""The programs of `programs.py` in `jax.numpy`, and a process that judges steps by them in float64.

A form takes the arguments of its program by name, and gives its floating-point outputs in their order. The process
(JAX has threads, and other tests fork) reads names of programs, one a line, and answers "right", or what is wrong.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tiramisu_py as tm
from tests.rewriting import programs
from tests.rewriting.judging import floats_of, listed, weighed, weights

Form = Callable[..., Any]
FORMS: dict[str, Form] = {}


def form(made: Form) -> Form:
    FORMS[made.__name__] = made
    return made


# -- stencils and boundaries


@form
def rod(u0: Any, c: Any, T: int, **_: Any) -> Any:
    u = u0
    for _t in range(T):
        u = u.at[1:-1].set(u[1:-1] + c[1:-1] * (u[:-2] - 2 * u[1:-1] + u[2:]))
    return u * u


@form
def heat(u0: Any, T: int, **_: Any) -> Any:
    u = u0
    for _t in range(T):
        near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u = u.at[1:-1, 1:-1].set(near - 3 * u[1:-1, 1:-1])
    return u


@form
def wave(start: Any, speed: Any, source: Any, T: int, N: int, **_: Any) -> Any:
    levels = [start, start]
    for t in range(2, T + 1):
        u, before = levels[-1], levels[-2]
        inside = 2 * u[1:-1] - before[1:-1] + speed[1:-1] ** 2 * (u[:-2] - 2 * u[1:-1] + u[2:])
        levels.append(jnp.pad(inside.at[0].add(source[t]), 1))
    return jnp.stack(levels)[:, N - 2]


def _near(a: Any, mode: str, **options: Any) -> Any:
    (rows, columns), wide = a.shape, jnp.pad(a, ((1, 2), (1, 1)), mode=mode, **options)
    return sum(
        wide[1 + y : 1 + y + rows, 1 + x : 1 + x + columns] * (1 + y + 3 * x) for y in (-1, 0, 2) for x in (-1, 0, 1)
    )


FORMS["repeat_edge"] = lambda a, **_: _near(a, "edge")
FORMS["repeat_image"] = lambda a, **_: _near(a, "wrap")
FORMS["mirror_image"] = lambda a, **_: _near(a, "symmetric")
FORMS["mirror_interior"] = lambda a, **_: _near(a, "reflect")
FORMS["constant"] = lambda a, **_: _near(a, "constant", constant_values=2.0)


@form
def three_dimensions(a: Any, w: Any, **_: Any) -> Any:
    n = jnp.pad(a, 1, mode="edge")
    rows, columns = n[:-2, 1:-1, 1:-1] + n[2:, 1:-1, 1:-1], n[1:-1, :-2, 1:-1] + n[1:-1, 2:, 1:-1]
    return w * (rows + columns + n[1:-1, 1:-1, :-2]) + a * a


@form
def harris(a: Any, N: int, M: int, **_: Any) -> Any:
    i, j = np.mgrid[:N, :M]

    def near(i: Any, j: Any) -> Any:
        return a[np.clip(i, 0, N - 1), np.clip(j, 0, M - 1)]

    def dx(i: Any, j: Any) -> Any:
        return near(i, j + 1) - near(i, j - 1)

    def xy(i: Any, j: Any) -> Any:
        return dx(i, j) * (near(i + 1, j) - near(i - 1, j))

    return sum(dx(i + y, j) ** 2 for y in (-1, 0, 1)) * xy(i, j) - xy(i, j - 1)


# -- strides, triangles, views, slices


FORMS["downsampled"] = lambda a, N, **_: a[:-1:3] ** 2 + 2 * a[2::3]
FORMS["triangle"] = lambda a, **_: ((jnp.triu(a * a.T) * jnp.diag(a)[:, None]).sum(1), jnp.triu(a * a.T))
FORMS["product_of_sizes"] = lambda a, N, M, **_: a.reshape(N, M) ** 2
FORMS["sliced"] = lambda a, T, **_: (a ** (T + 1), a)
FORMS["ring"] = lambda a, **_: jnp.roll(a, 1) * jnp.roll(a, -1) + 3 * a[::-1]


@form
def upsampled(a: Any, N: int, **_: Any) -> Any:
    i = np.arange(2 * N - 1)
    return a[i // 2] * (1.0 + i % 2) + a[(i + 1) // 2]


@form
def viewed(a: Any, N: int, **_: Any) -> Any:
    whole = a.reshape(N, 2, 3)
    return whole[:, :, 0] * whole[:, ::-1, 2] + whole[:, :, 1]


@form
def negative_indices(a: Any, N: int, **_: Any) -> Any:
    w = a[np.clip(np.arange(-2, N + 1), 0, N - 1)] * a[0]
    return w, w[:N] * w[2 : N + 2]


@form
def anti_diagonals(a: Any, N: int, **_: Any) -> Any:
    i, j = np.mgrid[:N, :N]
    return a[i + j] * a[j] + a[2 * i]


# -- products and convolutions


FORMS["matmul"] = lambda a, b, **_: a @ b
FORMS["matvec_of_itself"] = lambda a, x, **_: ((a @ x) * x) @ x
FORMS["conv1d"] = lambda x, w, **_: jnp.correlate(x, w, mode="valid")


@form
def conv2d(x: Any, w: Any, bias: Any, **_: Any) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME") ** 2 + bias[:, None, None]


@form
def strided_convolution(x: Any, w: Any, N: int, K: int, **_: Any) -> Any:
    return x[2 * np.arange(N)[:, None] + np.arange(K)] @ w[::-1]


@form
def perceptron(x: Any, w1: Any, w2: Any, **_: Any) -> Any:
    return jax.nn.sigmoid(jnp.tanh(x @ w1) @ w2)


# -- reductions


FORMS["softmax"] = lambda x, **_: jax.nn.softmax(x, axis=1)
FORMS["norms"] = lambda x, **_: (jnp.linalg.norm(x, axis=1), jax.nn.logsumexp(2 * x, axis=1))
FORMS["products_with_zeros"] = lambda x, **_: ((x - x[:, :1]).prod(1), x.prod(1))
FORMS["some_terms"] = lambda x, keep, **_: (jnp.triu(x * x) * (keep == 1)).sum(1)
FORMS["lower_sums"] = lambda x, **_: (x.cumsum(1) * x).sum()


@form
def layer_norm(x: Any, scale: Any, shift: Any, **_: Any) -> Any:
    return (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-2) * scale + shift


@form
def products_of_pairs(x: Any, keep: Any, **_: Any) -> Any:
    rest = [x[i:, 0].prod() for i in range(len(keep))]
    return (x[:, :2] ** 2 + 1).prod(), jnp.where(keep[:, None] == 1, x, 1.0).prod(0), jnp.stack(rest)


@form
def places(x: Any, w: Any, **_: Any) -> Any:
    most = (x * w[:, None]).max(1)
    return most * x.min(1), most


@form
def pair(x: Any, **_: Any) -> Any:
    first, second = x * x, x[::-1] + 1.0
    return first * second[::-1], first, second


# -- recurrences


FORMS["scan"] = lambda x, **_: jnp.cumsum(x * x) * x
FORMS["scan_in_chunks"] = lambda x, **_: jnp.cumsum(x)
FORMS["scan_of_products"] = lambda x, **_: jnp.cumprod(x)


@form
def forward_substitution(a: Any, r: Any, N: int, **_: Any) -> Any:
    return jax.scipy.linalg.solve_triangular(jnp.tril(a, -1) + jnp.eye(N), r, lower=True, unit_diagonal=True)


@form
def lstm(x: Any, w: Any, v: Any, T: int, **_: Any) -> Any:
    c = h = jnp.zeros(2)
    levels = []
    for t in range(T):
        z = w @ x[t] + v @ h
        c = c * jax.nn.sigmoid(z) + jax.nn.sigmoid(-z) * jnp.tanh(z[::-1])
        h = jax.nn.sigmoid(z) * jnp.tanh(c)
        levels.append(h)
    return jnp.stack(levels)


@form
def dynamic_programming(x: Any, N: int, M: int, **_: Any) -> Any:
    s = {}
    for i, j in np.ndindex(N, M):
        border = i == 0 or j == 0
        s[i, j] = x[i, j] if border else s[i - 1, j] * x[i, j] + s[i, j - 1] - s[i - 1, j - 1]
    return jnp.stack([s[N - 1, j] for j in range(M)])


FORMS["from_the_end"] = lambda x, **_: jnp.cumprod(x[::-1])[::-1]


# -- places that are values


@form
def edges(src: Any, dst: Any, weight: Any, x: Any, N: int, **_: Any) -> Any:
    return jnp.zeros(N).at[dst].add(weight * x[src])


@form
def csr(start: Any, column: Any, value: Any, x: Any, E: int, **_: Any) -> Any:
    p = np.arange(E)
    return ((start[:-1, None] <= p) & (p < start[1:, None])) @ (value * x[column])


@form
def histogram(level: Any, weight: Any, **_: Any) -> Any:
    h = (level == np.arange(4)[:, None]) @ (weight * weight)
    return h * h[::-1]


@form
def bilateral_grid(a: Any, level: Any, **_: Any) -> Any:
    a, of = a.astype(jnp.float64), level == np.arange(4)[:, None]
    return a * (of @ a)[level] / of.sum(1)[level]


FORMS["embedding"] = lambda table, word, **_: table[word] * table[word, :1]
FORMS["permuted"] = lambda order, x, **_: x[order] * x
FORMS["placed"] = lambda at, x, w, **_: x[at] * x[at] * w
FORMS["guarded_values"] = lambda keep, x, **_: jnp.where(keep < 2, x * x * x[::-1], 0.0)


# -- words


@form
def elementary(x: Any, y: Any, N: int, **_: Any) -> Any:
    a, c = x, y
    return (
        jnp.sqrt(a), jnp.cbrt(a), jnp.exp(a), jnp.exp2(a), jnp.expm1(a), jnp.log(a), jnp.log2(a), jnp.log10(a),
        jnp.log1p(a), jnp.sin(a), jnp.cos(a), jnp.tan(a), jnp.arcsin(a), jnp.arccos(a), jnp.arctan(a), jnp.sinh(a),
        jnp.cosh(a), jnp.tanh(a), jnp.arcsinh(a), jnp.arccosh(a + 2), jnp.arctanh(a), jnp.floor(a * 3), jnp.rint(a),
        jax.scipy.special.erf(a), jnp.arctan2(a, c), jnp.hypot(a, c), jnp.fmod(a, c * 0.3), jnp.copysign(a, -c),
        abs(a - 0.4), a + 0.3 * (c - a), -a, a / c, a**3, a**c, 2.0**a, a % (c * 0.3), jnp.minimum(a, c),
        jnp.maximum(a, c), jnp.clip(a, 0.3, c), abs(a - c), jnp.where(a > c, a * a, c), a**0.5, a**0, a, a**2,
        jnp.where(np.arange(N) % 2 == 0, a * c, c),
    )  # fmt: skip


FORMS["narrow_types"] = lambda x, w, N, **_: (x.astype(jnp.float64) * w * 3 + np.arange(N)) * x
FORMS["integers_beside"] = lambda x, m, **_: x * m * jnp.trunc(x * 2.5) + jnp.floor(x)


# -- the judge


def judge(name: str) -> None:
    """Values and gradients of a step beside JAX's: to 1e-10 (float32: 1e-6), and bit for bit with whole numbers."""
    f = programs.PROGRAMS[name]()
    g = tm.vjp(f)
    for sizes in programs.SIZES[name]:
        for exact in (False, True) if name in programs.EXACT else (False,):
            given = programs.arguments(f, sizes, 3, exact)
            by = weights(f, given, np.random.default_rng(1), exact)
            found = listed(g.step.evaluate(**weighed(f, given, by)))
            values = [found[k] for k in floats_of(f)]
            expected, gradients = of_jax(FORMS[name], given, g.wrt, by)
            for mine, right in zip([*values, *found[-len(g.wrt) :]], [*expected, *gradients], strict=True):
                assert np.size(mine) == np.size(right), (name, sizes)  # flat arrays of N * M have two dimensions here
                near = 1e-6 if np.asarray(mine).dtype == np.float32 else 1e-10
                rtol, atol = (0.0, 0.0) if exact else (near, near * float(np.abs(right).max(initial=0.0)))
                np.testing.assert_allclose(
                    np.reshape(mine, np.shape(right)), right, rtol, atol, err_msg=f"{name} at {sizes}, exact={exact}"
                )


def of_jax(of: Form, given: dict[str, Any], wrt: Any, by: list[Any]) -> tuple[list[Any], list[Any]]:
    """The values of a form, and its gradients, as JAX computes them."""
    rest = {name: each for name, each in given.items() if name not in wrt}

    def both(asked: dict[str, Any], by: list[Any]) -> Any:
        def values(asked: dict[str, Any]) -> list[Any]:
            made = of(**asked, **rest)
            return list(made) if isinstance(made, tuple) else [made]

        found, back = jax.vjp(values, asked)
        return found, back(by)[0]

    found, gradients = jax.jit(both)({name: jnp.asarray(given[name]) for name in wrt}, by)
    return found, [gradients[name] for name in wrt]


def main() -> None:
    """Answers each name of a line of the input."""
    jax.config.update("jax_enable_x64", True)
    for line in sys.stdin:
        try:
            judge(line.strip())
            answer = "right"
        except Exception:
            answer = repr(traceback.format_exc())
        print(answer, flush=True)


if __name__ == "__main__":
    main()
