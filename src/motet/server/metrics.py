"""Prometheus metrics for the operator, and one log record for each request.

They contain no payloads, tokens, ids or names: routes are counted by their template.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

LOG = logging.getLogger("motet.requests")
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH")
MAX_REFUSALS = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client reads it: workers write there, and each shows all

Mode: TypeAlias = Literal["livesum", "livemax", "livemostrecent"]
GAUGES: dict[str, tuple[str, Mode]] = {  # what they are, and how those of several workers become one number
    "motet_waiting": ("Requests waiting for the writer.", "livesum"),
    "motet_release": ("Version of the current release.", "livemax"),
    "motet_left_out": ("Clients that the current release had to leave out.", "livemostrecent"),
    "motet_refused": ("1 if the last release that was due was not made, else 0.", "livemostrecent"),
}


class Metrics:
    """The metrics of one application, in a registry of its own."""

    def __init__(self, gauges: Mapping[str, Callable[[], float]]) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("motet_requests", "Requests answered.", labels, registry=self.registry)
        self._durations = Histogram("motet_seconds", "Time to answer.", labels[:2], registry=self.registry)
        # A cache: prometheus_client takes longer to look labels up than to count.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        examples = Counter("motet_examples", "Examples taken.", ("outcome",), registry=self.registry)
        self._accepted, self._duplicates = examples.labels("accepted"), examples.labels("duplicate")
        self._gauges: dict[Gauge, Callable[[], float]] = {}
        for name, value in gauges.items():
            description, mode = GAUGES[name]
            self._gauges[Gauge(name, description, registry=self.registry, multiprocess_mode=mode)] = value
        self.refusals: deque[dict[str, Any]] = deque(maxlen=MAX_REFUSALS)  # the last requests that were refused

    def count_examples(self, accepted: int, duplicates: int) -> None:
        self._accepted.inc(accepted)
        self._duplicates.inc(duplicates)

    def update(self) -> None:
        """Measure what is not counted."""
        for gauge, value in self._gauges.items():
            gauge.set(value())

    def text(self) -> bytes:
        """Of this process, or of all workers of this server."""
        self.update()
        registry = self.registry
        if METRICS_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def count_request(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        method = scope["method"] if scope["method"] in METHODS else "other"
        key = (method, route, status)
        if key not in self._series:
            self._series[key] = self._requests.labels(*key), self._durations.labels(method, route)
        requests, durations = self._series[key]
        requests.inc()
        durations.observe(seconds)
        if status >= 400:
            self.refusals.append({"time": time.time(), "method": method, "route": route, "status": status})
        level = logging.DEBUG if status < 400 else logging.INFO  # successes are only counted
        LOG.log(level, "request", extra={"method": method, "route": route, "status": status, "seconds": seconds})
