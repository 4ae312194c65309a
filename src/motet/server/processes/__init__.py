"""The processes of ``motet serve``: ``serve`` starts the server, and ``children`` beside it the publisher and the
workers of ``--workers``. ``child`` is where each of those begins, and ``worker`` what one of many servers does.
"""
