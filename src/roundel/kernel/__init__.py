"""Everything that decides what happens next: no input or output, no clock, no randomness, no async."""
