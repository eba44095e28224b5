"""Diagrams of dataflows: layout, SVG, DOT and Mermaid, the HTML page, and the display in notebooks."""
