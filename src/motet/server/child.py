"""A child of a server: ``python -m motet.server.child publisher`` or ``worker``, which ends with that server.

It listens for the server's end before it imports anything, since that takes seconds, and many on a busy machine.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time

STOP_SECONDS = {"publisher": 2.0, "worker": 7.0}  # for a release, or for requests, under way


def main(name: str, *arguments: str) -> None:
    """Do a child's work until standard input closes, and so until the server ends that started this process.

    What takes longer than ``STOP_SECONDS`` then is not done: nothing is lost, for the database has all.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server stops it
    stop = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stop.set()
        time.sleep(STOP_SECONDS[name])
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    importlib.import_module(f"motet.server.{name}").main(*arguments, until=stop.is_set)


if __name__ == "__main__":
    main(*sys.argv[1:])
