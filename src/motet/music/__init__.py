"""The article's study of music taste: its simulation, the reproduction of its figures, and the live demo."""

from motet.music.simulation import Listeners, artists, model, simulate

__all__ = ["Listeners", "artists", "model", "simulate"]
