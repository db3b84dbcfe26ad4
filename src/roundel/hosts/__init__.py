"""Hosts execute runs: the engine of this process, and the decisions that every host shares."""
