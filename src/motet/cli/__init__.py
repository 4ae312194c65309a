"""The command line: one module for a group of commands, put together in ``app``.

A command is a function: its docstring is its help, and every parameter is ``Annotated`` with a typer option or argument
that has a help. ``terminal`` has the options that commands share, ``connect`` how they reach a server.
"""
