"""Sparse matrices in other formats than the declared one: products over rows (CSR) as programs over slices of rows."""

from tiramisu_py.sparse.sell import Sell, sell
from tiramisu_py.sparse.sell_matrix import SellKernels, SellMatrix

__all__ = ["Sell", "SellKernels", "SellMatrix", "sell"]
