"""The database of a study: all of its SQL, the writer, and what an operator does with it offline.

The server, the command line and the tests call it. ``store`` opens a database; ``clients``, ``examples``, ``releases``
and ``log`` read and change it inside a transaction; ``writer`` commits many changes together; ``backup``, ``restore``,
``verify`` and ``export`` work on a study's files, beside a server or without one.
"""

from motet.store.store import Connection, Store, read_only

__all__ = ["Connection", "Store", "read_only"]
