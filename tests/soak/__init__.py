"""``make soak``: mixed load on both databases for as many minutes as are given, with kills at random moments.

``leg`` is one study on one database, from its first client to its last check; ``python -m tests.soak`` runs all, and
prints what ``docs/reliability.md`` states. The load and the checks are those of ``tests/scenarios``.
"""
