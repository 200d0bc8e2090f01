"""What declarations and commands give back."""
