"""The program of one rank, over the arrays that it has."""
