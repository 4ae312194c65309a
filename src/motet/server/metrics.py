"""What the operator sees of a running server: Prometheus counters and histograms, and one log record for each request.

Neither has payloads, tokens, ids or names: routes are counted by their template.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import Scope

LOG = logging.getLogger("motet.requests")
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Of one application, in a registry of its own."""

    def __init__(self, waiting: Callable[[], int], version: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("motet_requests", "Requests answered.", labels, registry=self.registry)
        self._seconds = Histogram("motet_seconds", "Time to answer.", labels[:2], registry=self.registry)
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # looking labels up takes longer
        examples = Counter("motet_examples", "Examples taken.", ("outcome",), registry=self.registry)
        self._accepted, self._duplicates = examples.labels("accepted"), examples.labels("duplicate")
        Gauge("motet_waiting", "Requests waiting for the writer.", registry=self.registry).set_function(waiting)
        Gauge("motet_release", "Version of the current release.", registry=self.registry).set_function(version)

    def took(self, accepted: int, duplicates: int) -> None:
        self._accepted.inc(accepted)
        self._duplicates.inc(duplicates)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def record(self, scope: Scope, status: int, took: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in METHODS else "other"
        key = (method, route, status)
        if key not in self._known:
            self._known[key] = self._requests.labels(*key), self._seconds.labels(method, route)
        requests, seconds = self._known[key]
        requests.inc()
        seconds.observe(took)
        level = logging.DEBUG if status < 400 else logging.INFO  # what went well is counted above
        LOG.log(level, "request", extra={"method": method, "route": route, "status": status, "seconds": took})
