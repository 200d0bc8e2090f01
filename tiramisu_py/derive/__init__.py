"""What a program leaves to be found out: the barriers of its kernels, and the transfers between its memories.

Both are functions from a program to a program. Nothing is taken on trust: the proof judges what they make like what
the user wrote, and where they find nothing legal they leave the program as it is, for the proof to say what is missing.
"""
