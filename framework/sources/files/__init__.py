"""Folders of files as streaming sources, by Spark's file stream source."""
