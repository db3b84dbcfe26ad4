"""The rounds of a run, drawn."""
