"""Delta tables of a target: the port that writes it, its two implementations, and the auxiliary table."""
