"""Passes that make named variables of small buffers."""
