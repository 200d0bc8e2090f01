"""Recurrences over steps and space: steps that follow one another, wavefronts, lines side by side, pivots."""
