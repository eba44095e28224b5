"""Keeps the secrets of a process out of its output."""
