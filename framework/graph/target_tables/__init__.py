"""The schema, the properties and the folder of the table that a flow writes."""
