"""The composition engine: numbers in, numbers out. No files, no clock, no randomness, no records."""
