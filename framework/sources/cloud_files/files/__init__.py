"""Finds the files of a folder, and keeps those that were read."""
