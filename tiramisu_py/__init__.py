"""tiramisu_py: a polyhedral compiler with a scheduling language.

The algorithm says what each value is; the schedule says who computes it, when, and where it is kept; the compiler
proves that the scheduled program computes the values that the algorithm names, and emits C.

The usual entry points: `params`, `iters`, `Function`.
"""

from typing import TYPE_CHECKING

from tiramisu_py.fronts import front

if TYPE_CHECKING:
    from tiramisu_py import boundary, graphs, patterns, progress, queries, recipes, sparse
    from tiramisu_py.algorithm.expressions import Expr, ExternFunction, Iter, Param, cast, select
    from tiramisu_py.algorithm.functions import (
        absolute,
        arccos,
        arccosh,
        arcsin,
        arcsinh,
        arctan,
        arctan2,
        arctanh,
        cbrt,
        ceil,
        clip,
        copysign,
        cos,
        cosh,
        erf,
        exp,
        exp2,
        expm1,
        extern,
        floor,
        fmod,
        hypot,
        isfinite,
        isinf,
        isnan,
        log,
        log1p,
        log2,
        log10,
        maximum,
        minimum,
        operator,
        rint,
        sin,
        sinh,
        sqrt,
        stop_gradient,
        tan,
        tanh,
        trunc,
        where,
    )
    from tiramisu_py.algorithm.operators import Operator, argmax, argmin, logical_and, logical_or, product
    from tiramisu_py.algorithm.operators import max_ as max
    from tiramisu_py.algorithm.operators import min_ as min
    from tiramisu_py.algorithm.operators import sum_ as sum
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
    from tiramisu_py.algorithm.words.between_types import absd, lerp, saturating_cast
    from tiramisu_py.algorithm.words.bit_patterns import popcount, reinterpret
    from tiramisu_py.algorithm.words.choosing import mux
    from tiramisu_py.algorithm.words.scattering import scatter
    from tiramisu_py.algorithm.words.stages import ExternStage, extern_stage, reads, stride, updates, writes
    from tiramisu_py.errors import (
        ArgumentError,
        CallError,
        CommandError,
        DeclarationError,
        DTypeError,
        KernelError,
        LegalityError,
        SavedError,
        TiramisuError,
        ToolchainError,
        TuningError,
        UnknownNameError,
        UnsupportedError,
        Violation,
        Witness,
    )
    from tiramisu_py.function import (
        Barrier,
        Computation,
        Exchange,
        Function,
        Group,
        Half,
        Input,
        Reduction,
        Segments,
        Selection,
        Transfer,
        Wait,
        compile_versions,
        iters,
        load,
        params,
    )
    from tiramisu_py.function.equivalences import Equivalence, equivalent
    from tiramisu_py.function.finished_reductions import all_ as all
    from tiramisu_py.function.finished_reductions import any_ as any
    from tiramisu_py.function.finished_reductions import logsumexp, mean, norm, var
    from tiramisu_py.function.gradient_checks import GradientCheck, check_gradient
    from tiramisu_py.function.gradients import Gradients, grad, jvp, vjp
    from tiramisu_py.language.autotuned import Autotuned, Config, autotune
    from tiramisu_py.language.kernel import Jit, jit
    from tiramisu_py.program.loops import Combine
    from tiramisu_py.program.machine.gpu_target import GpuTarget
    from tiramisu_py.program.machine.instruction_costs import InstructionCosts
    from tiramisu_py.program.machine.pages import Policy
    from tiramisu_py.program.storage import Buffer, Memory
    from tiramisu_py.program.targets import Cores, GpuThreads, Partition, Shares
    from tiramisu_py.proof import Report
    from tiramisu_py.schedule.devices.transfers import Direction, Mode
    from tiramisu_py.schedule.instances.target_kinds import cores, gpu, shares
    from tiramisu_py.schedule.loops.bands import Band
    from tiramisu_py.schedule.loops.order import root
    from tiramisu_py.schedule.loops.wavefronts import Goal
    from tiramisu_py.schedule.ranks.exchange_half import Property
    from tiramisu_py.schedule.ranks.rank_numbers import RANK as rank
    from tiramisu_py.schedule.ranks.rank_numbers import rank_numbers as ranks
    from tiramisu_py.schedule.ranks.uneven_distribution import pieces
    from tiramisu_py.toolchain import (
        ArrayTraffic,
        DeviceArray,
        HostPool,
        Kernel,
        Launches,
        MemoryNode,
        SimulatedDisk,
        Target,
        Timing,
        Trace,
        TraceEvent,
        distinct,
        frozen,
        gpu_count,
        gpu_empty,
        host_pool,
        inverse,
        is_unified,
        memory_nodes,
        pinned_empty,
        target,
        to_gpu,
        to_unified,
    )
    from tiramisu_py.tuning import (
        Balance,
        BalancedPart,
        Choice,
        Choices,
        Collected,
        FitReport,
        InputAware,
        Machine,
        MemoryLevel,
        MemoryPlan,
        RokCurve,
        RokPoint,
        Storage,
        Tuned,
        TunedPoint,
        balance,
        input_aware,
        plan,
        powers_of_two,
        rok,
        tune,
    )
    from tiramisu_py.view import Explanation

    LOCALITY = Goal.LOCALITY
    PARALLEL = Goal.PARALLEL
    PRIVATE = Combine.PRIVATE
    ATOMIC = Combine.ATOMIC
    TREE = Combine.TREE
    TWO_PASS = Combine.TWO_PASS
    LAST_BLOCK = Combine.LAST_BLOCK
    LOCK = Combine.LOCK
    ORDERED = Combine.ORDERED
    HOST = Memory.HOST
    REGISTER = Memory.REGISTER
    GPU_MEMORY = Memory.GPU
    SHARED = Memory.SHARED
    PINNED = Memory.PINNED
    HOST_MAPPED = Memory.HOST_MAPPED
    FILE = Memory.FILE
    LOCAL = Policy.LOCAL
    INTERLEAVE = Policy.INTERLEAVE
    BIND = Policy.BIND
    CPU2GPU = Direction.CPU2GPU
    GPU2CPU = Direction.GPU2CPU
    GPU2GPU = Direction.GPU2GPU
    CPU2FILE = Direction.CPU2FILE
    FILE2CPU = Direction.FILE2CPU
    GPU2FILE = Direction.GPU2FILE
    FILE2GPU = Direction.FILE2GPU
    SYNC = Mode.SYNC
    ASYNC = Mode.ASYNC
    BLOCK = Property.BLOCK
    NONBLOCK = Property.NONBLOCK
    BUFFERED = Property.BUFFERED
    PERSISTENT = Property.PERSISTENT

front(
    __name__,
    {
        "tiramisu_py.algorithm.operators": (
            "Operator, argmax, argmin, logical_and, logical_or, product, max_ as max, min_ as min, sum_ as sum"
        ),
        "tiramisu_py.algorithm.expressions": "Expr, ExternFunction, Iter, Param, cast, select",
        "tiramisu_py.algorithm.functions": (
            "absolute, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, cbrt, ceil, clip, copysign, "
            "cos, cosh, erf, exp, exp2, expm1, extern, floor, fmod, hypot, isfinite, isinf, isnan, log, log1p, "
            "log2, log10, maximum, minimum, operator, rint, sin, sinh, sqrt, stop_gradient, tan, tanh, trunc, where"
        ),
        "tiramisu_py.algorithm.types": (
            "DType, bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, "
            "uint64, bool_ as bool"
        ),
        "tiramisu_py.algorithm.words.between_types": "absd, lerp, saturating_cast",
        "tiramisu_py.algorithm.words.bit_patterns": "popcount, reinterpret",
        "tiramisu_py.algorithm.words.choosing": "mux",
        "tiramisu_py.algorithm.words.scattering": "scatter",
        "tiramisu_py.algorithm.words.stages": "ExternStage, extern_stage, reads, stride, updates, writes",
        "tiramisu_py.toolchain": (
            "DeviceArray, HostPool, Kernel, MemoryNode, SimulatedDisk, Target, Timing, Trace, TraceEvent, "
            "ArrayTraffic, Launches, distinct, frozen, "
            "gpu_count, gpu_empty, host_pool, inverse, is_unified, memory_nodes, pinned_empty, target, to_gpu, "
            "to_unified"
        ),
        "tiramisu_py.errors": (
            "ArgumentError, CallError, CommandError, DeclarationError, DTypeError, KernelError, LegalityError, "
            "SavedError, TiramisuError, ToolchainError, TuningError, UnknownNameError, UnsupportedError, "
            "Violation, Witness"
        ),
        "tiramisu_py.function": (
            "Barrier, Computation, Exchange, Function, Group, Half, Input, Reduction, Segments, Selection, Transfer, "
            "Wait, compile_versions, iters, load, params"
        ),
        "tiramisu_py.function.finished_reductions": "all_ as all, any_ as any, logsumexp, mean, norm, var",
        "tiramisu_py.function.equivalences": "Equivalence, equivalent",
        "tiramisu_py.function.gradient_checks": "GradientCheck, check_gradient",
        "tiramisu_py.function.gradients": "Gradients, grad, jvp, vjp",
        "tiramisu_py.language.autotuned": "Autotuned, Config, autotune",
        "tiramisu_py.language.kernel": "Jit, jit",
        "tiramisu_py.program.loops": (
            "Combine, Combine.PRIVATE as PRIVATE, Combine.ATOMIC as ATOMIC, Combine.TREE as TREE, "
            "Combine.TWO_PASS as TWO_PASS, Combine.LAST_BLOCK as LAST_BLOCK, Combine.LOCK as LOCK, "
            "Combine.ORDERED as ORDERED"
        ),
        "tiramisu_py.program.machine.gpu_target": "GpuTarget",
        "tiramisu_py.program.machine.instruction_costs": "InstructionCosts",
        "tiramisu_py.program.machine.pages": (
            "Policy, Policy.LOCAL as LOCAL, Policy.INTERLEAVE as INTERLEAVE, Policy.BIND as BIND"
        ),
        "tiramisu_py.program.storage": (
            "Buffer, Memory, Memory.HOST as HOST, Memory.REGISTER as REGISTER, Memory.GPU as GPU_MEMORY, "
            "Memory.SHARED as SHARED, Memory.PINNED as PINNED, Memory.HOST_MAPPED as HOST_MAPPED, "
            "Memory.FILE as FILE"
        ),
        "tiramisu_py.program.targets": "Cores, GpuThreads, Partition, Shares",
        "tiramisu_py.proof": "Report",
        "tiramisu_py.schedule.devices.transfers": (
            "Direction, Mode, Direction.CPU2GPU as CPU2GPU, Direction.GPU2CPU as GPU2CPU, "
            "Direction.GPU2GPU as GPU2GPU, Direction.CPU2FILE as CPU2FILE, Direction.FILE2CPU as FILE2CPU, "
            "Direction.GPU2FILE as GPU2FILE, Direction.FILE2GPU as FILE2GPU, "
            "Mode.SYNC as SYNC, Mode.ASYNC as ASYNC"
        ),
        "tiramisu_py.schedule.instances.target_kinds": "cores, gpu, shares",
        "tiramisu_py.schedule.loops.bands": "Band",
        "tiramisu_py.schedule.loops.order": "root",
        "tiramisu_py.schedule.loops.wavefronts": "Goal, Goal.LOCALITY as LOCALITY, Goal.PARALLEL as PARALLEL",
        "tiramisu_py.schedule.ranks.exchange_half": (
            "Property, Property.BLOCK as BLOCK, Property.NONBLOCK as NONBLOCK, Property.BUFFERED as BUFFERED, "
            "Property.PERSISTENT as PERSISTENT"
        ),
        "tiramisu_py.schedule.ranks.rank_numbers": "RANK as rank, rank_numbers as ranks",
        "tiramisu_py.schedule.ranks.uneven_distribution": "pieces",
        "tiramisu_py.tuning": (
            "Balance, BalancedPart, Choice, Choices, Collected, FitReport, InputAware, Machine, MemoryLevel, "
            "MemoryPlan, RokCurve, RokPoint, Storage, Tuned, TunedPoint, balance, input_aware, plan, powers_of_two, "
            "rok, tune"
        ),
        "tiramisu_py.view": "Explanation",
    },
    modules=(
        "algorithm backends boundary counting dependence derive equivalence errors function graphs interpret "
        "ir language lower passes patterns program progress proof queries recipes rewriting schedule sets sparse "
        "styles toolchain tuning view"
    ),
    former={"GPU": "GPU_MEMORY", "Gpu": "GpuThreads"},
)

__version__ = "0.1.0"

__all__ = [
    "Band",
    "Goal",
    "LOCALITY",
    "ASYNC",
    "BLOCK",
    "BUFFERED",
    "NONBLOCK",
    "Property",
    "ATOMIC",
    "Jit",
    "ORDERED",
    "Autotuned",
    "Config",
    "autotune",
    "jit",
    "ArgumentError",
    "BIND",
    "Balance",
    "BalancedPart",
    "Barrier",
    "Buffer",
    "CPU2GPU",
    "CallError",
    "Choice",
    "Choices",
    "Collected",
    "Combine",
    "CommandError",
    "Computation",
    "Cores",
    "DType",
    "DTypeError",
    "DeclarationError",
    "DeviceArray",
    "Direction",
    "Expr",
    "Explanation",
    "Exchange",
    "ExternFunction",
    "FitReport",
    "Equivalence",
    "Function",
    "Group",
    "GPU_MEMORY",
    "GPU2CPU",
    "GPU2GPU",
    "CPU2FILE",
    "FILE2CPU",
    "GPU2FILE",
    "FILE2GPU",
    "GpuThreads",
    "GpuTarget",
    "GradientCheck",
    "Gradients",
    "HOST",
    "Half",
    "HOST_MAPPED",
    "FILE",
    "HostPool",
    "INTERLEAVE",
    "Input",
    "InputAware",
    "InstructionCosts",
    "Iter",
    "Kernel",
    "KernelError",
    "LAST_BLOCK",
    "LOCK",
    "LOCAL",
    "LegalityError",
    "Machine",
    "Memory",
    "MemoryLevel",
    "MemoryPlan",
    "RokCurve",
    "RokPoint",
    "Storage",
    "MemoryNode",
    "SimulatedDisk",
    "Mode",
    "Operator",
    "PERSISTENT",
    "PINNED",
    "PARALLEL",
    "PRIVATE",
    "Policy",
    "Param",
    "Partition",
    "REGISTER",
    "Reduction",
    "Segments",
    "Report",
    "SHARED",
    "SYNC",
    "Shares",
    "Selection",
    "TREE",
    "TWO_PASS",
    "Target",
    "Timing",
    "SavedError",
    "TiramisuError",
    "ToolchainError",
    "Trace",
    "TraceEvent",
    "ArrayTraffic",
    "Launches",
    "Transfer",
    "Tuned",
    "TunedPoint",
    "TuningError",
    "UnknownNameError",
    "UnsupportedError",
    "Violation",
    "Wait",
    "Witness",
    "absd",
    "absolute",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "all",
    "any",
    "argmax",
    "argmin",
    "balance",
    "bfloat16",
    "bool",
    "boundary",
    "cast",
    "cbrt",
    "check_gradient",
    "ceil",
    "clip",
    "compile_versions",
    "copysign",
    "cores",
    "cos",
    "cosh",
    "distinct",
    "equivalent",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "extern",
    "float16",
    "float32",
    "float64",
    "floor",
    "frozen",
    "fmod",
    "gpu",
    "gpu_count",
    "gpu_empty",
    "graphs",
    "host_pool",
    "grad",
    "hypot",
    "input_aware",
    "int16",
    "int32",
    "int64",
    "int8",
    "inverse",
    "is_unified",
    "isfinite",
    "isinf",
    "isnan",
    "iters",
    "jvp",
    "lerp",
    "load",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_or",
    "logsumexp",
    "max",
    "maximum",
    "mean",
    "memory_nodes",
    "min",
    "minimum",
    "mux",
    "norm",
    "operator",
    "params",
    "patterns",
    "pieces",
    "pinned_empty",
    "popcount",
    "plan",
    "powers_of_two",
    "rok",
    "product",
    "progress",
    "queries",
    "rint",
    "rank",
    "reinterpret",
    "recipes",
    "ranks",
    "root",
    "saturating_cast",
    "scatter",
    "select",
    "shares",
    "sin",
    "sinh",
    "sparse",
    "sqrt",
    "stop_gradient",
    "sum",
    "tan",
    "tanh",
    "target",
    "to_gpu",
    "to_unified",
    "trunc",
    "tune",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "where",
    "ExternStage",
    "extern_stage",
    "reads",
    "stride",
    "updates",
    "writes",
    "var",
    "vjp",
]
