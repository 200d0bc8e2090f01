"""The words of block programs, to be imported as `tl`: ``import tiramisu_py.language as tl``.

A kernel is a function with ``@tm.jit``, written on whole blocks; see the guide, block programs.
"""
from tiramisu_py.language.words import *  # noqa: F403
from tiramisu_py.language.ir.parse import parse
