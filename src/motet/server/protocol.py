"""How requests are read off a connection: by uvicorn and httptools, with the bound that these lack."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST = 65_536  # bytes of a request without its body


class Bounded(HttpToolsProtocol):
    """Refuses a head that does not end: its parser would keep all of it. Bodies are limited by what they say."""

    _rest = 0  # bytes of this request so far, without its body

    def data_received(self, data: bytes) -> None:
        self._rest += len(data)
        super().data_received(data)
        if self._rest > LONGEST and not self.transport.is_closing():
            self.send_400_response("The head of this request is too long.")

    def on_body(self, body: bytes) -> None:
        self._rest -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._rest = 0
        super().on_message_complete()
