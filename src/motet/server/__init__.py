"""HTTP and the clock: a study's server and its publisher, over the store. ``motet serve`` starts both (``processes``).

``app`` has the table of routes, ``routes`` their handlers, ``auth`` who may call them, ``bodies`` what they read and
``answers`` what they return; ``document`` and ``pages`` show them. ``service`` is what they share, ``protection``
bounds what anyone takes of it, ``metrics`` and ``logs`` are the operator's, and ``loading`` takes an operator's table.
``publisher`` makes the releases in a process of its own: ``states`` are its states, ``timing`` their moments and the
clock, and ``learner`` what it has learned. Only the command line and the demo call this room.
"""
