"""Transfers, streams and waits of GPUs."""
