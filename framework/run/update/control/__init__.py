"""What the outside sees of an update and asks of it: its identity, lock holder, event log and requests to stop."""
