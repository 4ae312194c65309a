"""Attacks on releases: ``difference`` (between two of them), ``attacks`` (what it reveals about clients), ``audit``
(the report of ``motet audit``).
"""
