"""Use cases of a pipeline for commands, servers and notebooks; they take values and return values."""
