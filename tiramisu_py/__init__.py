"""tiramisu_py: a polyhedral compiler with a scheduling language.

The algorithm says what each value is; the schedule says who computes it, when, and where it is kept; the compiler proves
that the scheduled program computes the values that the algorithm names, and emits C.
"""

from tiramisu_py.algorithm.declarations import Operator, logical_and, logical_or, product
from tiramisu_py.algorithm.declarations import max_ as max
from tiramisu_py.algorithm.declarations import min_ as min
from tiramisu_py.algorithm.declarations import sum_ as sum
from tiramisu_py.algorithm.expressions import Expr, ExternFunction, Iter, Param, cast, select
from tiramisu_py.algorithm.functions import *  # noqa: F403
from tiramisu_py.algorithm.types import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tiramisu_py.algorithm.types import bool_ as bool
from tiramisu_py.build import Kernel
from tiramisu_py.errors import (
    ArgumentError,
    CommandError,
    DeclarationError,
    DTypeError,
    KernelError,
    LegalityError,
    TiramisuError,
    ToolchainError,
    UnsupportedError,
    Violation,
    Witness,
)
from tiramisu_py.function import Computation, Function, Input, Reduction, Selection, iters, params
from tiramisu_py.program.loops import Combine
from tiramisu_py.program.storage import Buffer, Memory
from tiramisu_py.proof import Report
from tiramisu_py.schedule.order import root

PRIVATE = Combine.PRIVATE
ATOMIC = Combine.ATOMIC
HOST = Memory.HOST
REGISTER = Memory.REGISTER
__version__ = "0.1.0"
