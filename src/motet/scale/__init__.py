"""Past memory and past one machine: tables in partitions, on disk, on a cluster or in a database.

``fit`` is one table fitted whatever its size: ``survey`` looks at it first, ``job`` says what is done with every part,
``partitions`` has the sums, and ``cluster`` does the same on Dask. ``objective`` is the evidence of all partitions, by
which settings are searched. ``moments`` are long tasks of linear models by their sums of products; ``sql`` has a
database sum.
"""
