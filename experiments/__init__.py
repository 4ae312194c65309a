"""Measurements behind the docs' claims: privacy against utility, and settings by evidence."""
