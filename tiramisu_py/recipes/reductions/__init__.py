"""Recipes for reductions: rows, columns, and any number of dimensions."""
