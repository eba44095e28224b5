"""The server: the page and the API for everything that Sluice knows."""
