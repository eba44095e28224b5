"""Delta tables of a target: the port that writes the target, its two implementations, and the auxiliary table."""
