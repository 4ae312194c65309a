"""The article's study of music taste: its simulation, the reproduction of its figures, and the live demo.

``simulation`` has the listeners; ``reproduce``, ``figures`` and ``report`` are the article's experiment; the other
modules are the demo. The command line calls both, and examples use the simulation.
"""

from motet.music.simulation import Listeners, artists, model, simulate

__all__ = ["Listeners", "artists", "model", "simulate"]
