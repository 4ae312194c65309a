"""The commands of ``motet``, by who calls them; ``motet.cli`` puts them together."""
