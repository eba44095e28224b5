"""Sandboxes: real updates of a pipeline in a storage of their own, with given inputs, for tests and notebooks."""
