"""One module for each command, with the attribute `command`; it imports its dependencies when it is called."""
