"""HTTP and the clock: a study's server and its publisher, over the store. ``motet serve`` starts both.

``serve`` runs them; ``app`` has the table of routes, ``routes`` their handlers, ``service`` what they share, and
``publisher`` makes the releases in a process of its own, ``child``. Only the command line and the demo call this room.
"""
