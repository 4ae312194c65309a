"""Measurements behind the docs' claims: privacy against utility."""
