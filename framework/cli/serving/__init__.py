"""Commands around the server."""
