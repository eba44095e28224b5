"""The stored state of a flow before it runs: its checkpoint, positions and starts."""
