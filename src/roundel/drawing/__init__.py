"""Drawings of a workflow, one module a format: a tree for the terminal, Mermaid, SVG."""
