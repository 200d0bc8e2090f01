"""Run in a process of its own: kernels with arrays of JAX, as the guide's chapter on tools has it."""

from __future__ import annotations

import jax
import numpy as np

from tests.toolchain.calls.test_torch_and_jax import kernel, of_the_guide, picture


def main() -> None:
    """Prints a word for each step that is right."""
    expected = kernel()(picture())
    given = jax.numpy.asarray(picture())
    result = kernel()(given)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(np.asarray(result), expected)
    print("arrays")
    blurred = of_the_guide(jax=jax)["blurred"]
    np.testing.assert_array_equal(np.asarray(blurred(given)), expected)
    print("callback")
    np.testing.assert_array_equal(np.asarray(jax.jit(blurred)(given)), expected)
    print("jit")
    twice = jax.jit(lambda image: 2 * blurred(image + 1))
    np.testing.assert_allclose(np.asarray(twice(given)), 2 * kernel()(picture() + 1), rtol=1e-6)
    print("between")


if __name__ == "__main__":
    main()
