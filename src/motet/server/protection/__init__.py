"""What bounds the time and memory that anyone takes of a server. Nothing here knows of studies.

``connections`` are between the sockets and the application; ``rates`` say who may call now; ``streams`` are responses
that take long to be read; ``refusals`` the one format of every error.
"""
