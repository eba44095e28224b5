"""What is looked at: pictures of the dataflow, a page about it, and how values show in a notebook.

Promises pictures without scripts, fonts or programs from elsewhere, readable on light and on dark
backgrounds, with every text escaped. `cli` prints them; `pipeline` shows them in notebooks.
"""
