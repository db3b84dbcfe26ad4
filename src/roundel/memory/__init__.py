"""What agents remember, by groups: working and long-term memory, and what the graphs of a workflow attach."""
