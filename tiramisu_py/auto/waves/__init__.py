"""Recurrences over steps and space: steps that follow one another, diagonals, lines side by side."""
