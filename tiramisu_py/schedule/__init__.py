"""The commands: from a program to a program, one family a file."""
