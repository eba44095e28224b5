"""The list of the private parts that the room uses, and the check of it in a session."""
