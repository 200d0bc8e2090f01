"""Gradients beside JAX and PyTorch."""
