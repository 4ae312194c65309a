"""A child of a server: ``python -m motet.server.processes.child`` with ``publisher`` or ``worker``; it ends with that.

It listens for the server's end before it imports anything, since that takes seconds, and many on a busy machine.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time

MODULES = {"publisher": "motet.server.publisher", "worker": "motet.server.processes.worker"}
WORK_SECONDS = {"publisher": 2.0, "worker": 7.0}  # for a release, or for requests, under way


def main(name: str, *arguments: str) -> None:
    """Do a child's work until standard input closes, and so until the server ends that started this process.

    What takes longer than ``WORK_SECONDS`` then is not done: nothing is lost, for the database has all.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server stops it
    stop = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stop.set()
        time.sleep(WORK_SECONDS[name])
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    importlib.import_module(MODULES[name]).main(*arguments, until=stop.is_set)


if __name__ == "__main__":
    main(*sys.argv[1:])
