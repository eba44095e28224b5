"""The values behind the output of commands, pages and notebooks: tables, JSON and the flow board."""
