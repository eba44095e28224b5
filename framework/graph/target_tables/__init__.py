"""The schema, the properties and the place of the table that a flow writes."""
