"""One HTTP server of a study on a listening socket, as it runs alone or as one of many workers."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable
from pathlib import Path

from motet.server.app import create_app
from motet.server.connections import Listener, Server, bounded_config, max_connections
from motet.server.service import Service
from motet.store.store import Store
from motet.study.study import Study

GRACE_SECONDS = 5  # for requests that are under way when the server stops


def listener(study: Study, listening: socket.socket, *, tls: bool) -> Listener:
    """A socket that accepts as many connections as the study allows."""
    limits = study.server
    return Listener(
        listening,
        limit=max_connections(limits.max_connections),
        limit_per_address=limits.max_connections_per_address,
        proxies=limits.proxies,
        tls=tls,
    )


def http_server(
    study: Study,
    store: Store,
    operator: str,
    listening: Listener,
    *,
    certfile: Path | None,
    keyfile: Path | None,
    ready: Callable[[], None],
    until: Callable[[], bool] = lambda: False,
) -> Server:
    """Its ``run`` serves until a signal comes or ``until`` is true; ``operator`` is the hash of that token."""
    config = bounded_config(
        create_app(study, lambda: Service(study, store, operator)),
        proxies=study.server.proxies,
        ssl_certfile=certfile,
        ssl_keyfile=keyfile,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    gc.freeze()  # modules stay: collections need not walk through them,
    gc.set_threshold(20_000)  # nor come with every request
    gc.enable()
    return Server(config, listening, ready, until)
