"""``python -m motet`` is ``motet``."""

from motet.cli import app

app(prog_name="motet")
