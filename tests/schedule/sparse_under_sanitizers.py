"""Run by test_sanitizers in a process of its own: sparse programs, compiled with sanitizers."""

from __future__ import annotations

import tiramisu_py as tm
from tests.programs.sparse import CASES, by_rows, compare, csr, expected

#: One for each form of loads and stores.
CHOSEN = (
    "rows on threads", "rows on threads, balanced", "coordinates, private", "padded rows, mask",
    "padded rows with marks", "scatter, mask", "scatter, overlap", "inverse in vectors", "entries in vectors",
)  # fmt: skip


def main() -> None:
    for case in map(CASES.__getitem__, CHOSEN):
        f = case.make()
        kernel = f.compile(sanitize=("address", "undefined"))
        for arguments in case.arguments():
            compare(kernel(**arguments), expected(f, arguments), case.exact)
    slices_of_rows()
    print("clean")


def slices_of_rows() -> None:
    """Inspector and executor of products on slices of rows."""
    _, y = csr()
    kernels = tm.sparse.sell(y).compile(sanitize=("address", "undefined"), threads=2)
    for given in by_rows():
        x = given.pop("x")
        found = kernels.inspect(**given, M=len(x))(x)
        wanted = csr()[0].evaluate(**given, x=x)
        compare(found, wanted, True)


if __name__ == "__main__":
    main()
