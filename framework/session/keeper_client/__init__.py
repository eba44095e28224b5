"""How a command finds the process that keeps a session, and calls it."""
