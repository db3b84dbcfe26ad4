"""The state machine that decides what happens next: no I/O, no clock, no randomness, no async."""
