"""The database of a study: all of its SQL, the writer, and what an operator does with it offline.

The server, the command line and the tests call it. ``schema`` has the tables; ``records`` the settings and the log, and
``chain`` the hash chain of releases. ``store`` opens a database, a ``Dialect`` (``dialects``) of ``sqlite`` or
``postgresql``. ``clients``, ``examples``, ``releases`` and ``pins`` read and change it inside a transaction; ``writer``
commits many changes together. ``backup``, ``migrate``, ``verify`` with ``recompute``, and ``export`` work on a study's
files, beside a server or without one.
"""
