"""Models of the times of a kernel: plain arrays, and predictions in NumPy alone."""
