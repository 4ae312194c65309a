"""``motet`` at a terminal, forked from a process that has imported it, which takes a tenth of the time.

A small script on the terminal's PATH hands its streams, folder and variables to a listener in this process, which
forks. Signals go the same way, and the exit code comes back.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any

from tests.cli.program import become
from tests.scenarios.harness import FORKS

SCRIPT = """\
import json, os, signal, socket, sys

with socket.socket(socket.AF_UNIX) as listener:
    listener.connect({address!r})
    said = json.dumps([os.getcwd(), sys.argv[1:], dict(os.environ)]).encode()
    socket.send_fds(listener, [len(said).to_bytes(8, "big")], [0, 1, 2])
    listener.sendall(said)
    answer = listener.makefile()
    process = int(answer.readline())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(process, number))
    sys.exit(int(answer.readline()))
"""


class Descriptor:
    """A file's number, which is another one in the process that gets it."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        return _detached, (DupFd(self._number),)


def _detached(copy: Any) -> int:
    return int(copy.detach())


@contextmanager
def forked_motet() -> Iterator[Path]:
    """A folder for the PATH, with the program."""
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as listener:
        script, program, address = (Path(name) / part for part in ("script.py", "motet", "listener"))
        script.write_text(SCRIPT.format(address=str(address)), encoding="utf-8")
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{script}" "$@"\n', encoding="utf-8")
        program.chmod(0o700)
        listener.bind(str(address))
        listener.listen()
        thread = threading.Thread(target=_listen, args=(listener,), daemon=True)
        thread.start()
        yield Path(name)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _listen(listener: socket.socket) -> None:
    with suppress(OSError):  # the end
        while True:
            threading.Thread(target=_fork, args=(listener.accept()[0],), daemon=True).start()


def _fork(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as said:
        length, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
        given = json.loads(said.read(int.from_bytes(length, "big")))
        process = FORKS.Process(target=_main, args=(*given, [Descriptor(number) for number in descriptors]))
        process.start()
        for number in descriptors:
            os.close(number)
        with suppress(OSError):
            connection.sendall(f"{process.pid}\n".encode())
        if connection in wait([process.sentinel, connection]):  # whoever asked was killed
            process.kill()
        process.join()
        with suppress(OSError):
            connection.sendall(f"{process.exitcode}\n".encode())


def _main(folder: str, arguments: list[str], environment: Mapping[str, str], streams: list[int]) -> None:
    for descriptor, number in enumerate(streams):
        os.dup2(number, descriptor)
        os.close(number)
    os.chdir(folder)
    become(arguments, environment)
