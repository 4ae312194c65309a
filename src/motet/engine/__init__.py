"""What is kept: the examples of many tasks, their sums and their evidence.

``engine`` takes examples as they come and forgets them exactly: ``triples`` keeps them, ``batches`` inverts all tasks
of one size at once, ``information`` adds them up, ``system`` solves one model for the average, with its evidence,
``predictions`` evaluates every row's own task, and ``left_out`` rows and tasks without themselves. ``condensation``
reduces long tasks of linear models to few pseudo-examples, ``padding`` brings short ones to few sizes; ``admission``
leaves out clients whose numbers no release could hold.
"""
