"""What is worked out about a workflow before it runs: components, loop nesting, layers, static checks."""
