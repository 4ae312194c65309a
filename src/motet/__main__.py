"""``python -m motet`` is ``motet``."""

from motet.cli.app import app

app(prog_name="motet")
