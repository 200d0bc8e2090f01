"""Whether judges, the proof, the loops after each pass and the compiled code agree about a program."""
