"""Loads the modules of a pipeline: each sees its own imports, and the public interface under all its names."""
