"""Run by test_sanitizers in a process of its own: sparse programs, compiled with sanitizers."""

from __future__ import annotations

from tests.programs.sparse import CASES, compare, expected

#: One for each form of loads and stores.
CHOSEN = (
    "rows on threads", "coordinates, private", "padded rows, mask", "padded rows with marks", "scatter, mask",
    "scatter, overlap", "inverse in vectors", "entries in vectors",
)  # fmt: skip


def main() -> None:
    for case in map(CASES.__getitem__, CHOSEN):
        f = case.make()
        kernel = f.compile(sanitize=("address", "undefined"))
        for arguments in case.arguments():
            compare(kernel(**arguments), expected(f, arguments), case.exact)
    print("clean")


if __name__ == "__main__":
    main()
