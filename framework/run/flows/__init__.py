"""One runner per kind of flow: streaming, batch, snapshot and view."""
