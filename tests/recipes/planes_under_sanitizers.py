"""Run by test_plane_convolution in a process of its own: convolutions of planes, compiled with sanitizers."""

from __future__ import annotations

import tiramisu_py as tm
from tests.recipes.test_convolution import FEW
from tests.recipes.test_plane_convolution import CASES, compare, program
from tests.sanitizers import sanitized_process
from tiramisu_py.recipes import Cpu

#: Wide vectors in few registers.
WIDE = Cpu(vector_bytes=64, registers=6, first=48 << 10, second=2 << 20)


def main() -> None:
    for cpu, case in ((WIDE, "plain"), (FEW, "not padded"), (FEW, "stride 2")):
        fn, result = program(CASES[case])
        tm.recipes.convolution(result, cpu=cpu)
        compare(fn.compile(threads=2, sanitize=("address", "undefined")), CASES[case])
    print("clean")


if __name__ == "__main__":
    sanitized_process()
    main()
