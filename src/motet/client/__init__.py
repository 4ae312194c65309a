"""The SDK: a client of a study over HTTP, its connection, and tables of many clients.

It needs no more of Motet than a release; the server's packages are never imported here.
"""

from motet.client.client import Client, Enrolled, Sent

__all__ = ["Client", "Enrolled", "Sent"]
