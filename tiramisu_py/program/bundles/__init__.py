"""Bundles: adjacent loops over a box that commands take as one loop, with several symbolic extents."""
