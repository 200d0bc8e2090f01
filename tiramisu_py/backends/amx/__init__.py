"""AMX: the matrix registers of x86 processors, for host functions."""
