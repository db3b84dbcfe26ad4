"""What is computed about a workflow before it runs: components, loop nesting, layers, proofs, static
checks."""
