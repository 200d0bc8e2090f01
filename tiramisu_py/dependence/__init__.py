"""Dataflow analysis: accesses to places, their order, and the writes that each read sees."""
