"""What is kept, computed again, or put in files: choices for the values that a program reads late."""
