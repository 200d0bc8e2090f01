"""Programs on ranks beside C by hand."""
