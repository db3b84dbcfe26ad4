"""The two stories of `roundel demo`: workflows with scripts, which need neither a key nor a network."""
