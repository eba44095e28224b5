"""The runners of flows, one for each kind: streaming, batch, snapshot and view."""
