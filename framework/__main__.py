"""`python -m framework` is `sluice`."""

from __future__ import annotations

from framework.cli.main import main

main()
