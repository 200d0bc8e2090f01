"""Certificates: a proven program and the evidence of its proof, for a program that checks them on its own."""
