"""SQL files: their statements make the same declarations as decorators."""
