"""The meaning of a program on ranks: which ranks execute a statement, hold a value, or combine results."""
