"""Statements that the completion adds: barriers in kernels, and start, combination and merge of partial results."""
