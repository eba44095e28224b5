"""The external view and control of an update: its identity, lock holder, event log and stop requests."""
