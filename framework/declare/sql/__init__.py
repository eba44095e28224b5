"""SQL files: their statements declare what decorators declare."""
