"""Measurements. `make bench` runs them all; each is a ratio to something measured in the same run."""
