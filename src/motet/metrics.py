"""What the operator sees of a running server: Prometheus counters and histograms, and one log record for each request.

Neither has payloads, tokens, ids or names: routes are counted by their template.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LOG = logging.getLogger("motet.requests")
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Of one application, in a registry of its own."""

    def __init__(self, waiting: Callable[[], int], version: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("motet_requests", "Requests answered.", labels, registry=self.registry)
        self._seconds = Histogram("motet_seconds", "Time to answer.", labels[:2], registry=self.registry)
        self.examples = Counter("motet_examples", "Examples taken.", ("outcome",), registry=self.registry)
        Gauge("motet_waiting", "Requests waiting for the writer.", registry=self.registry).set_function(waiting)
        Gauge("motet_release", "Version of the current release.", registry=self.registry).set_function(version)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    async def measure(self, request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        begin, status = time.perf_counter(), 500
        try:
            response = await call_next(request)
            status = response.status_code
            return response
        finally:
            took = time.perf_counter() - begin
            route = getattr(request.scope.get("route"), "path", "none")
            self._requests.labels(request.method, route, status).inc()
            self._seconds.labels(request.method, route).observe(took)
            LOG.info("request", extra={"method": request.method, "route": route, "status": status, "seconds": took})
