"""Mutation testing: how many small faults in the kernel and the plan the tests notice."""
