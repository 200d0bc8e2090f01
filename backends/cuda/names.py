"""Names that kernels cannot have for something of their own."""

from __future__ import annotations

_CPP = """
alignas alignof and and_eq bitand bitor catch char8_t char16_t char32_t class compl concept const_cast consteval
constexpr constinit decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public reinterpret_cast requires static_assert static_cast template this
thread_local throw try typeid typename using virtual wchar_t xor xor_eq
"""
_CUDA = "threadIdx blockIdx blockDim gridDim warpSize dim3 half assert rsqrt rsqrtf"
RESERVED = frozenset(_CPP.split()) | frozenset(_CUDA.split())
