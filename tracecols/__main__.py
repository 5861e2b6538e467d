"""Run the command line with ``python -m tracecols``."""

from tracecols.cli import main

main()
