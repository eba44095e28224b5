"""Diagrams of the dataflow: layout, drawing, the HTML page, and the HTML of notebooks."""
