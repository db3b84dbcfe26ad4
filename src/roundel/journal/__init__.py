"""Stores of runs: their facts, snapshots, leases and control requests."""
