"""The estimator behind scikit-learn's interface, and its report.

``regressor`` and ``formula`` are how a data frame is fitted, with ``parameters`` that are checked; ``tune`` is how its
settings are kept. ``scales`` are those of outputs, ``target`` chooses one; ``unknown`` is how inputs of which something
is not known are predicted. ``results``, ``description``, ``effects``, ``residuals``, ``profiles``, ``summary`` and
``comparison`` are what comes out, as ``tables``.
"""
