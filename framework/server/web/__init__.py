"""Routes with their roles, and the guard of every request."""
