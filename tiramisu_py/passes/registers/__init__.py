"""Passes that turn small buffers into named variables."""
