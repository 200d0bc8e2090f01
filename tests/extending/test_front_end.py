"""A front end of fifty lines: sums of products as text, beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.extending.einsum import einsum

SIZES = {"i": 5, "j": 7, "k": 3}


@pytest.mark.parametrize("subscripts", ["ik,kj->ij", "ij->ji", "ij->", "i,i->", "ik,kj,ji->i"])
def test_a_sum_is_what_numpy_says(subscripts: str) -> None:
    f = einsum(subscripts)
    numbers = np.random.default_rng(1)
    operands = subscripts.partition("->")[0].split(",")
    arrays = [numbers.integers(-9, 9, [SIZES[i] for i in names]).astype(float) for names in operands]
    given = {f"in{n}": array for n, array in enumerate(arrays)}
    expected = np.einsum(subscripts, *arrays)
    np.testing.assert_array_equal(f.evaluate(**given), expected)
    np.testing.assert_array_equal(f.compile()(**given), expected)


@pytest.mark.parametrize(
    ("subscripts", "words"), [("i->j", "no input has the index j of the output"), ("ij", "no sum of products")]
)
def test_other_text_is_refused(subscripts: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        einsum(subscripts)
