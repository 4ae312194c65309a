"""The article's study of music taste: its simulation, the reproduction of its figures, and the live demo.

``simulation`` has the listeners; ``reproduce``, ``figures`` and ``report`` are the article's experiment. ``demo`` has
the ``crowd`` of listeners, who send (``load``), the study's server as a process (``hosting``) and what is shown
(``view``). The command line calls both, and examples use the simulation.
"""

from motet.music.simulation import Listeners, artists, model, simulate

__all__ = ["Listeners", "artists", "model", "simulate"]
