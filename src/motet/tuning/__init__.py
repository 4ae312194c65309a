"""Settings by evidence, on folded tasks.

``defaults`` holds the settings that were given and makes a model of them for the rows at hand. ``components`` are its
variances, ``gradient`` the slope of the evidence; ``search`` climbs it, ``structures`` chooses a model's parts, of
columns that ``screening`` scores, and ``tuning`` starts and judges the searches: ``fit_settings`` is all of this at
once. ``weights`` are noises that differ by row, of which ``robust`` chooses one. ``phases`` tells how far one is.
"""
