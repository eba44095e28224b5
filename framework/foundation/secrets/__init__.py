"""Keeps the secrets of a process out of what it prints."""
