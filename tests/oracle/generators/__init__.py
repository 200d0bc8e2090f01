"""What makes random programs: algorithms, commands and damage, as lines of a script that a user could write."""
