"""What a program means on ranks: who executes, who holds, what they combine."""
