"""Commands for GPUs: tag_gpu, cache_shared, barriers, transfers, waits."""
