"""What a report of a pipeline shows, as values."""
