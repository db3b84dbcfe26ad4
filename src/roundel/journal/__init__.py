"""Where runs live: their facts, snapshots, and what people want of them."""
