"""Block-sparse patterns, arranged beforehand: which blocks of a matrix there are, and who computes which of them.

::

    layout = tm.patterns.local(blocks=64, size=8) | tm.patterns.longformer(blocks=64, window=4, globals=[0])
    layout.density                              # 0.19
    tables = layout.tables()                    # integer arrays: inputs of a program
    for part in layout.superblocks(): ...       # blocks in larger products: rows x columns, every cell a block
    for part in layout.segments(most=4): ...    # parts of rows with at most four blocks

Everything is NumPy: a layout makes tables, and a `Function` declares what the proof may rely on about them.

Source: Tillet, "Blocked Algorithms for Neural Networks", Harvard 2020, chapter 6.
"""

from tiramisu_py.patterns.block_layout import BlockLayout
from tiramisu_py.patterns.known import causal, fixed, local, longformer, strided
from tiramisu_py.patterns.row_segments import Segment
from tiramisu_py.patterns.super_blocks import SuperBlock

__all__ = ["BlockLayout", "Segment", "SuperBlock", "causal", "fixed", "local", "longformer", "strided"]
