"""Models behind one door."""
