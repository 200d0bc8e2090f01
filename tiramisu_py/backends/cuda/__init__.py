"""CUDA: kernels, the host code that launches them, the runtime under both, and a simulator of the driver."""
