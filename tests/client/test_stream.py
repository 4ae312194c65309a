"""New releases as they come: by a stream of events that is cut, or by looking."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import httpx
import pytest

from motet import Client
from tests.client.fake_server import FakeServer, learned, refusal


class Stream(httpx.SyncByteStream):
    """Events, and before each of its parts another release; then it is cut."""

    def __init__(self, server: FakeServer, *parts: bytes) -> None:
        self.server, self.parts, self.closed = server, parts, False

    def __iter__(self) -> Iterator[bytes]:
        for k, part in enumerate(self.parts):
            self.server.engine = learned(float(k))
            yield part
        raise httpx.ReadError("cut")

    def close(self) -> None:
        self.closed = True


def test_releases_follow_the_stream_and_survive_its_loss() -> None:
    server = FakeServer()
    event = b'event: release\ndata: {"version": 2}\n\n'
    streams = [Stream(server, b": hello\n\n", event, b"event: other\ndata: {}\n\n") for _ in range(2)]

    def serve(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/stream":
            return server(request)
        opened = [stream for stream in streams if not stream.closed]
        return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=opened[0])

    with httpx.Client(transport=httpx.MockTransport(serve)) as http:
        coming = Client("https://study", http=http, sleep=server.pauses.append).releases()
        digests = [release.digest for release in islice(coming, 4)]
        coming.close()
    assert digests == [learned(k).disclose().digest for k in (0.0, 1.0, 2.0, 1.0)]
    assert len(server.pauses) == 1
    assert all(stream.closed for stream in streams)


@pytest.mark.parametrize("answer", [refusal(404, "http_404"), httpx.Response(200, text="<html>")], ids=str)
def test_releases_are_looked_for_where_there_is_no_stream(answer: httpx.Response) -> None:
    server = FakeServer()
    server.fixed["GET /v1/stream"] = answer
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        server.fixed.pop("GET /v1/disclosed", None)
        server.engine = learned(float(len(waited) // 2))

    with httpx.Client(transport=httpx.MockTransport(server)) as http:
        me = Client("https://study", http=http, sleep=sleep)
        me.disclosed()
        server.fixed["GET /v1/disclosed"] = refusal(404, "not_released")
        found = [release.digest for release in islice(me.releases(poll=5.0), 2)]
    assert found == [learned(1.0).disclose().digest, learned(2.0).disclose().digest]
    assert waited == [5.0] * 4
