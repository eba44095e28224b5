"""The documents of a bundle: read, merged, with their variables in place."""
