"""The command line: one module for a group of commands, put together in ``app``."""
