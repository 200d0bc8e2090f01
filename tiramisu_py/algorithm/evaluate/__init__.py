"""The oracle: the values of an algorithm in NumPy, without any schedule."""
