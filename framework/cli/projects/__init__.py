"""Commands that write a project: a new one, the demo, or what existing code needs."""
