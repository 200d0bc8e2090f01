"""The compiler, made wrong at one place at a time: for each change there is a test that fails."""
