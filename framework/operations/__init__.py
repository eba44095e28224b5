"""What a command, a server and a notebook do with a pipeline: use cases that take values and return values."""
