"""Commands for GPUs: tag_gpu, copies in kernels, barriers, transfers, waits."""
