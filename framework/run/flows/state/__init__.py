"""What the storage says about a flow before it runs: checkpoint, positions, starts."""
