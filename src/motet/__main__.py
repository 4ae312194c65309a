"""``python -m motet`` is ``motet``."""

from motet.cli.app import main

main()
