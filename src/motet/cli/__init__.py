"""The command line: one module for a group of commands, put together in ``app``.

A command is a function: its docstring is its help, and every parameter is ``Annotated`` with a typer option or argument
that has a help.

one table      fit, evaluate
a study        init, proposal (what it prints), check
its server     operate
its clients    clients, examples, predict, releases
the article    demo, reproduce
of them all    command (parameters, help, errors), terminal (options, tables), connect (to a server), phases (progress)
"""
