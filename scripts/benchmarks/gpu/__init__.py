"""All checks and timings on a GPU, and on GPU and cores together."""
