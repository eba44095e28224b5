"""The options of a folder of files."""
