"""The words of block programs, to be imported as `tl`: ``import tiramisu_py.language as tl``.

A kernel is a function with ``@tm.jit``, written on whole blocks; see the guide, block programs.
"""

from tiramisu_py.language import words
from tiramisu_py.language.ir.parse import parse
from tiramisu_py.language.words import *  # noqa: F403

__all__ = ["parse", *words.__all__]  # noqa: PLE0604
