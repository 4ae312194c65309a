"""Real data: each script fits the regressor without any setting, beside what people use today.

``python -m examples.sleepstudy`` prints a table, and writes it to ``examples/results`` and a figure to ``docs/img``.
"""
