"""The SDK: a client of a study over HTTP, and tables of many clients.

``client`` is the whole of it for one client; ``connection`` are requests that survive a bad network, ``payload``
examples as they are sent, ``responses`` what comes back. ``tables`` are read and written; ``site`` has many clients
with a token each, ``predictions`` are at rows of a table. Nothing of Motet but a release is needed: the server's
packages are never imported here.
"""

from motet.client.client import Client, Enrolled, Sent

__all__ = ["Client", "Enrolled", "Sent"]
