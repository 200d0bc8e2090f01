"""Recipes: command sequences for common kinds of computations, with sizes derived from the processor."""

from tiramisu_py.language.schedules.blocks import blocks
from tiramisu_py.recipes.convolution import convolution, convolution_space
from tiramisu_py.recipes.cpu import Cpu
from tiramisu_py.recipes.matmul import matmul, matmul_space
from tiramisu_py.recipes.pointwise import pointwise
from tiramisu_py.recipes.recipe import AppliedCommands, Recipe
from tiramisu_py.recipes.reductions.columns import columns
from tiramisu_py.recipes.reductions.reduction import reduction, reduction_space
from tiramisu_py.recipes.reductions.rows import rows
from tiramisu_py.recipes.spmv import spmv
from tiramisu_py.recipes.stencil import stencil
from tiramisu_py.recipes.time_stencil import time_stencil
from tiramisu_py.recipes.traversal import traversal
from tiramisu_py.recipes.typed_matmul import typed_matmul

__all__ = [
    "AppliedCommands", "Cpu", "Recipe", "blocks", "columns", "convolution", "convolution_space", "matmul",
    "matmul_space", "pointwise", "reduction", "reduction_space", "rows", "spmv", "stencil", "time_stencil",
    "traversal", "typed_matmul",
]  # fmt: skip
