"""The functions and decorators that modules of a pipeline call; each call registers a specification."""
