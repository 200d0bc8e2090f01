"""What all benchmarks use: rounds of contenders, arrays that they share, tables and pictures of results."""
