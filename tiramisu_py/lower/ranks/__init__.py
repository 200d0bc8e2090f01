"""The program of one rank, over its parts of arrays."""
