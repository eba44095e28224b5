"""The process that keeps a session ready for the next command."""
