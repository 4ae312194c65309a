"""Bad input at scale: every reader of the system is given what is nearly right, hundreds of thousands of times.

``targets`` is the table of readers, ``mutations`` makes the cases, ``bounds`` says what may not happen, ``__main__`` is
``make fuzz``.
"""
