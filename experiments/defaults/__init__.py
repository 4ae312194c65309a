"""The regressor without any setting on anybody's table: ``python -m experiments.defaults``.

``rows`` are the numbers of a table, ``tables`` the list of all and the coin that halves it, ``real`` and ``simulated``
what they are made of. ``protocol`` has the cells, ``inner`` the cross-validation in which peers tune; ``ours``,
``plain``, ``mixed``, ``trees`` and ``grouped_trees`` have the methods, ``methods`` is their list. ``worker`` runs one
in a process, ``densities`` one whose predictions are not all normal; ``outcomes`` keeps what came of it, ``verdict``
compares, ``report`` writes DEFAULTS.md.
"""
