"""Derived parts of a program: the barriers of its kernels, and the transfers between its memories.

Both are functions from a program to a program. Their results are not trusted: the proof judges them like the user's
commands. If they find nothing legal, they leave the program unchanged, and the proof reports what is missing.
"""
