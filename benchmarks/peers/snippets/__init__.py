"""What a user of each program writes: a file for each comparison, a function for each program.

A program may be in an environment without Motet, so only numpy is imported at the top. The table counts the lines of
each function.
"""
