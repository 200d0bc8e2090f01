"""The programs to test with, and what several tests ask of them."""
