"""One module per command, with the attribute `command`; dependencies are imported when the command is called."""
