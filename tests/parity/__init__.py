"""What the tests of TIRAMISU do, done here: each group of theirs is a program with an independent result."""
