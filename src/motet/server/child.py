"""The publisher's process: ``python -m motet.server.child``, which a server starts and which ends with that server.

It listens for the server's end before it imports a publisher, since that takes seconds, and many on a busy machine.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

STOP_SECONDS = 2.0  # for a release that is under way


def main(*arguments: str) -> None:
    """Publish until standard input closes, and so until the server ends that started this process.

    A release that takes longer than ``STOP_SECONDS`` then is not made: nothing is lost, for the database has all.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server stops it
    stop = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stop.set()
        time.sleep(STOP_SECONDS)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    from motet.server import publisher

    publisher.main(*arguments, until=stop.is_set)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(*sys.argv[1:])
