"""What says of a program, one execution after the other at a size, what goes wrong in it; isl decides nothing here."""
