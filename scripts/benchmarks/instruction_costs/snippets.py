"""What is played on LLVM's models: a few instructions for each instruction set, repeated on registers of their own."""

from __future__ import annotations

from dataclasses import dataclass

#: How often a snippet is repeated in the loop that a model plays, each time with other results.
COPIES = 7


#: Of what has to wait for its own result: whole cycles.
ALONE = ("add_latency", "multiply_add_latency")


@dataclass(frozen=True, eq=False)
class InstructionSet:
    """Vector instructions: the bytes and the number of their registers, and the text of each kind of work.

    In a text of `work`, ``{k}`` is the number of the copy, from 0 on, and ``{more}`` that of another register which no
    other copy writes; operands that nothing writes are in the last registers. Beside it stands how often a text has
    its work. Those of `alone` wait for their own result. `gather` is the number of lanes of a gather, 0 without one.
    """

    vector_bytes: int
    registers: int
    work: dict[str, tuple[str, int]]
    alone: dict[str, str]
    gather: int = 0
    architecture: str = "x86_64"


AVX512 = InstructionSet(
    64,
    32,
    {
        "load": ("vmovups (%rax), %zmm{k}", 1),
        "store": ("vmovups %zmm{k}, (%rax)", 1),
        "stream": ("vmovntps %zmm{k}, (%rax)", 1),
        "masked_store": ("vmovups %zmm{k}, (%rax) {%k1}", 1),
        "multiply_add": ("vfmadd231ps %zmm30, %zmm31, %zmm{k}\nvfmadd231ps %zmm30, %zmm31, %zmm{more}", 2),
        "divide": ("vdivps %zmm30, %zmm31, %zmm{k}", 1),
        "square_root": ("vsqrtps %zmm31, %zmm{k}", 1),
        "slide": ("valignd $1, %zmm30, %zmm31, %zmm{k}", 1),
        "widen": ("vpmovzxbw %ymm31, %zmm{k}", 1),
        "narrow": (
            "vpmovwb %zmm31, %ymm{k}\nvpmovwb %zmm30, %ymm{more}\nvinserti64x4 $1, %ymm{k}, %zmm{more}, %zmm{k}",
            1,
        ),
    },
    {"add_latency": "vaddps %zmm31, %zmm0, %zmm0", "multiply_add_latency": "vfmadd231ps %zmm30, %zmm31, %zmm0"},
    16,
)
AVX2 = InstructionSet(
    32,
    16,
    {
        "load": ("vmovups (%rax), %ymm{k}", 1),
        "store": ("vmovups %ymm{k}, (%rax)", 1),
        "stream": ("vmovntps %ymm{k}, (%rax)", 1),
        "masked_store": ("vmaskmovps %ymm{k}, %ymm15, (%rax)", 1),
        "multiply_add": ("vfmadd231ps %ymm14, %ymm15, %ymm{k}\nvfmadd231ps %ymm14, %ymm15, %ymm{more}", 2),
        "divide": ("vdivps %ymm14, %ymm15, %ymm{k}", 1),
        "square_root": ("vsqrtps %ymm15, %ymm{k}", 1),
        "slide": ("vperm2i128 $33, %ymm14, %ymm15, %ymm{k}\nvpalignr $4, %ymm14, %ymm{k}, %ymm{k}", 1),
        "widen": ("vpmovzxbw %xmm15, %ymm{k}", 1),
        "narrow": ("vpackuswb %ymm14, %ymm15, %ymm{k}\nvpermq $216, %ymm{k}, %ymm{k}", 1),
    },
    {"add_latency": "vaddps %ymm15, %ymm0, %ymm0", "multiply_add_latency": "vfmadd231ps %ymm14, %ymm15, %ymm0"},
    8,
)
SSE = InstructionSet(
    16,
    16,
    {
        "load": ("movups (%rax), %xmm{k}", 1),
        "store": ("movups %xmm{k}, (%rax)", 1),
        "stream": ("movntps %xmm{k}, (%rax)", 1),
        "multiply_add": ("movaps %xmm15, %xmm{k}\nmulps %xmm14, %xmm{k}\naddps %xmm15, %xmm{k}", 1),
        "divide": ("movaps %xmm15, %xmm{k}\ndivps %xmm14, %xmm{k}", 1),
        "square_root": ("sqrtps %xmm15, %xmm{k}", 1),
        "slide": ("movdqa %xmm15, %xmm{k}\npalignr $4, %xmm14, %xmm{k}", 1),
        "widen": ("movdqa %xmm15, %xmm{k}\npunpcklbw %xmm14, %xmm{k}", 1),
        "narrow": ("movdqa %xmm15, %xmm{k}\npackuswb %xmm14, %xmm{k}", 1),
    },
    {"add_latency": "addps %xmm15, %xmm0", "multiply_add_latency": "mulps %xmm15, %xmm0\naddps %xmm14, %xmm0"},
)
NEON = InstructionSet(
    16,
    32,
    {
        "load": ("ldr q{k}, [x0]", 1),
        "store": ("str q{k}, [x0]", 1),
        "stream": ("stnp q{k}, q{more}, [x0]", 2),
        "multiply_add": ("fmla v{k}.4s, v30.4s, v31.4s\nfmla v{more}.4s, v30.4s, v31.4s", 2),
        "divide": ("fdiv v{k}.4s, v30.4s, v31.4s", 1),
        "square_root": ("fsqrt v{k}.4s, v31.4s", 1),
        "slide": ("ext v{k}.16b, v30.16b, v31.16b, #4", 1),
        "widen": ("ushll v{k}.8h, v31.8b, #0", 1),
        "narrow": ("xtn v{k}.8b, v30.8h\nxtn2 v{k}.16b, v31.8h", 1),
    },
    {"add_latency": "fadd v0.4s, v0.4s, v31.4s", "multiply_add_latency": "fmla v0.4s, v30.4s, v31.4s"},
    0,
    "aarch64",
)

#: The processors of the table, by names that gcc and LLVM share, as far as LLVM has models of them.
PROCESSORS = (
    (SSE, ("nehalem", "westmere", "sandybridge", "ivybridge", "btver2")),
    (AVX2, ("haswell", "broadwell", "skylake", "alderlake", "znver1", "znver2", "znver3")),
    (AVX512, (
        "skylake-avx512",
            "cascadelake",
            "cooperlake",
            "icelake-client",
            "icelake-server",
            "tigerlake",
            "sapphirerapids",
            "emeraldrapids",
            "graniterapids",
            "znver4",
    )),
    (NEON, ("cortex-a53", "cortex-a72", "neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2")),
)  # fmt: skip
#: Levels that many processors have: the mean over these.
LEVELS = {
    "x86-64": SSE, "x86-64-v2": SSE, "x86-64-v3": AVX2, "x86-64-v4": AVX512, "armv8-a": NEON, "armv8.2-a": NEON,
}  # fmt: skip
#: Where the models are known to be wrong: cycles from the vendors' own tables.
CORRECTIONS = {
    # Golden Cove loads three vectors of 32 bytes a cycle, or two of 64. Source: Intel 64 and IA-32 Architectures
    # Optimization Reference Manual, Golden Cove, load ports.
    ("sapphirerapids", "load"): 0.5,
    ("emeraldrapids", "load"): 0.5,
    ("graniterapids", "load"): 0.5,
    # Servers multiply and add two vectors of 64 bytes a cycle; LLVM has the model of clients. Source: the same manual.
    ("icelake-server", "multiply_add"): 0.5,
    ("sapphirerapids", "multiply_add"): 0.5,
    ("emeraldrapids", "multiply_add"): 0.5,
    ("graniterapids", "multiply_add"): 0.5,
    # VMASKMOVPS to memory is microcode, as on Zen 3. Source: AMD, Software Optimization Guide for Family 17h.
    ("znver1", "masked_store"): 12.0,
    ("znver2", "masked_store"): 12.0,
}
