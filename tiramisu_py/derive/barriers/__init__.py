"""The barriers that kernels need."""
