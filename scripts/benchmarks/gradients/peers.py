"""The same ten programs for JAX and PyTorch: value, then gradients of the weighted sum of its elements.

Each takes `xp`, the array module of the library, so that both run the same lines where the libraries agree.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Values = Mapping[str, Any]


def unsharp(xp: Any, v: Values) -> Any:
    image = v["image"]
    grey = 0.299 * image[0] + 0.587 * image[1] + 0.114 * image[2]
    down = 0.25 * grey[:-2] + 0.5 * grey[1:-1] + 0.25 * grey[2:]
    blur = 0.25 * down[:, :-2] + 0.5 * down[:, 1:-1] + 0.25 * down[:, 2:]
    own = grey[1:-1, 1:-1]
    return ((2 * own - blur) / own)[None] * image[:, 1:-1, 1:-1]


def harris(xp: Any, v: Values) -> Any:
    a = v["a"]
    dx = a[:-2, 2:] - a[:-2, :-2] + 2 * (a[1:-1, 2:] - a[1:-1, :-2]) + a[2:, 2:] - a[2:, :-2]
    dy = a[2:, :-2] - a[:-2, :-2] + 2 * (a[2:, 1:-1] - a[:-2, 1:-1]) + a[2:, 2:] - a[:-2, 2:]
    rows, columns = dx.shape[0] - 2, dx.shape[1] - 2

    def summed(of: Any) -> Any:
        return sum(of[y : y + rows, x : x + columns] for y in range(3) for x in range(3))

    sxx, syy, sxy = summed(dx * dx), summed(dy * dy), summed(dx * dy)
    return sxx * syy - sxy * sxy - 0.04 * (sxx + syy) ** 2


def layer_norm(xp: Any, v: Values) -> Any:
    a = v["a"]
    mean = a.mean(1)[:, None]
    apart = a - mean
    return apart / xp.sqrt((apart * apart).mean(1)[:, None] + 1e-5) * v["scale"] + v["shift"]


def perceptron(xp: Any, v: Values) -> Any:
    zero = xp.zeros_like(v["w2"][0, 0])
    first = xp.maximum(v["a"] @ v["w1"], zero)
    return xp.maximum(first @ v["w2"], zero) @ v["w3"]


def _cells(v: Values) -> tuple[int, int, Any]:
    """The rows and columns of cells, and the number of the bin of each pixel."""
    level = v["level"]
    rows, columns = level.shape[0] // 8, level.shape[1] // 8
    i, j = np.indices(level.shape) // 8
    return rows, columns, (i * columns + j) * 10


def jax_programs() -> dict[str, Callable[[Values], Any]]:
    """The programs for JAX."""
    jax = importlib.import_module("jax")
    jnp, lax = jax.numpy, jax.lax

    def conv2d(v: Values) -> Any:
        return lax.conv_general_dilated(v["image"], v["weight"], (1, 1), "VALID")

    def heat(v: Values) -> Any:
        rate = v["rate"][1:-1, 1:-1]

        def step(u: Any, _: Any) -> tuple[Any, None]:
            inner = u[1:-1, 1:-1]
            near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            return u.at[1:-1, 1:-1].add(rate * (near - 4 * inner)), None

        return lax.scan(step, v["u0"], None, length=v["T"])[0]

    def wave(v: Values) -> Any:
        speed, zero = v["speed"][1:-1, 1:-1], jnp.zeros_like(v["speed"])

        def step(carry: Any, pulse: Any) -> tuple[Any, Any]:
            u, before = carry
            near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
            moved = 2 * u[1:-1, 1:-1] - before[1:-1, 1:-1] + speed * near
            new = zero.at[1:-1, 1:-1].set(moved).at[2, 2].add(pulse)
            return (new, u), new[2]

        later = lax.scan(step, (zero, zero), v["pulse"][2:])[1]
        return jnp.concatenate([jnp.zeros((2, zero.shape[1]), zero.dtype), later])

    def softmax_loss(v: Values) -> Any:
        a = v["a"]
        return jax.nn.logsumexp(a, axis=1) - jnp.take_along_axis(a, v["label"][:, None], 1)[:, 0]

    def bilateral_grid(v: Values) -> Any:
        rows, columns, cells = _cells(v)
        bins = (cells + v["level"]).ravel()
        counts = jnp.zeros(rows * columns * 10, jnp.float32).at[bins].add(1.0).reshape(rows, columns, 10)
        g = jnp.zeros(rows * columns * 10, jnp.float32).at[bins].add(v["a"].ravel()).reshape(rows, columns, 10)
        weighed = [x[..., :-2] + 2 * x[..., 1:-1] + x[..., 2:] for x in (g, counts)]
        smooth = jnp.pad(weighed[0] / (weighed[1] + 1e-3), ((0, 0), (0, 0), (1, 1)))
        return v["a"] * smooth.ravel()[bins].reshape(v["a"].shape)

    def csr(v: Values) -> Any:
        return jax.ops.segment_sum(v["value"] * v["a"][v["column"]], v["row"], v["N"], indices_are_sorted=True)

    shared = {each.__name__: _with(each, jnp) for each in (unsharp, harris, layer_norm, perceptron)}
    return shared | {each.__name__: each for each in (conv2d, heat, wave, softmax_loss, bilateral_grid, csr)}


def torch_programs() -> dict[str, Callable[[Values], Any]]:
    """The programs for PyTorch."""
    torch = importlib.import_module("torch")

    def conv2d(v: Values) -> Any:
        return torch.nn.functional.conv2d(v["image"], v["weight"])

    def heat(v: Values) -> Any:
        u, rate = v["u0"], v["rate"][1:-1, 1:-1]
        for _ in range(v["T"]):
            inner = u[1:-1, 1:-1]
            near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u = u + torch.nn.functional.pad(rate * (near - 4 * inner), (1, 1, 1, 1))
        return u

    def wave(v: Values) -> Any:
        speed = v["speed"][1:-1, 1:-1]
        before = u = torch.zeros_like(v["speed"])
        source = torch.zeros_like(u)
        source[2, 2] = 1
        heard = [u[2], u[2]]
        for step in range(2, v["T"] + 1):
            near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
            moved = 2 * u[1:-1, 1:-1] - before[1:-1, 1:-1] + speed * near
            before, u = u, torch.nn.functional.pad(moved, (1, 1, 1, 1)) + source * v["pulse"][step]
            heard.append(u[2])
        return torch.stack(heard)

    def softmax_loss(v: Values) -> Any:
        return torch.nn.functional.cross_entropy(v["a"], v["label"].long(), reduction="none")

    def bilateral_grid(v: Values) -> Any:
        rows, columns, cells = _cells(v)
        bins = (torch.from_numpy(cells) + v["level"]).ravel()
        size, one = rows * columns * 10, torch.ones_like(v["a"]).ravel()
        counts = torch.zeros(size).index_add(0, bins, one).reshape(rows, columns, 10)
        g = torch.zeros(size).index_add(0, bins, v["a"].ravel()).reshape(rows, columns, 10)
        weighed = [x[..., :-2] + 2 * x[..., 1:-1] + x[..., 2:] for x in (g, counts)]
        smooth = torch.nn.functional.pad(weighed[0] / (weighed[1] + 1e-3), (1, 1))
        return v["a"] * smooth.ravel()[bins].reshape(v["a"].shape)

    def csr(v: Values) -> Any:
        return torch.zeros(v["N"]).index_add(0, v["row"], v["value"] * v["a"][v["column"]])

    shared = {each.__name__: _with(each, torch) for each in (unsharp, harris, layer_norm, perceptron)}
    return shared | {each.__name__: each for each in (conv2d, heat, wave, softmax_loss, bilateral_grid, csr)}


def _with(program: Callable[[Any, Values], Any], xp: Any) -> Callable[[Values], Any]:
    return lambda v: program(xp, v)


def given(arguments: Values) -> dict[str, Any]:
    """The arguments of a program, with the row of each element of a sparse matrix, which these libraries take."""
    found = dict(arguments)
    if "start" in found:
        found["row"] = np.repeat(np.arange(found["N"]), np.diff(found["start"])).astype(np.int64)
    return found


def jax_step(name: str, arguments: Values, wrt: Sequence[str], weight: Any) -> Callable[[], list[Any]]:
    """Value and gradients by one jitted function."""
    jax = importlib.import_module("jax")
    program = jax_programs()[name]
    every = given(arguments)
    fixed = {key: each for key, each in every.items() if key not in wrt}
    moved = {key: jax.numpy.asarray(every[key]) for key in wrt}
    sizes = {key: each for key, each in fixed.items() if isinstance(each, int)}
    constant = {"level"} if name == "bilateral_grid" else set()  # its shape says where cells are
    data = {key: jax.numpy.asarray(each) for key, each in fixed.items() if key not in sizes and key not in constant}
    rest = {key: fixed[key] for key in constant}

    @jax.jit
    def both(moved: Any, data: Any, weight: Any) -> Any:
        value, back = jax.vjp(lambda m: program({**sizes, **data, **rest, **m}), moved)
        return value, back(weight)[0]

    w = jax.numpy.asarray(weight)

    def run() -> list[Any]:
        value, gradients = jax.block_until_ready(both(moved, data, w))
        return [value, *(gradients[key] for key in wrt)]

    return run


def torch_step(
    name: str, arguments: Values, wrt: Sequence[str], weight: Any, *, compiled: bool, device: str = "cpu"
) -> Callable[[], list[Any]]:
    """Value and gradients by autograd, of the program as it is or compiled, on tensors of a device."""
    torch = importlib.import_module("torch")
    program = torch_programs()[name]
    if compiled:
        program = torch.compile(program)
    values = {
        key: each if isinstance(each, int) else torch.from_numpy(each).to(device)
        for key, each in given(arguments).items()
    }
    moved = [values[key].requires_grad_() for key in wrt]
    w = torch.from_numpy(weight).to(device)

    def run() -> list[Any]:
        value = program(values)
        return [value.detach(), *torch.autograd.grad(value, moved, w)]

    return run
