"""One module a command; each has `command`, and imports what it needs when it is called."""
