"""The host, streams, kernels, threads and their races."""
