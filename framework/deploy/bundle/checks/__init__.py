"""Checks the fields of a bundle, and finds what a deploy would regret."""
