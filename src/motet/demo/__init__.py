"""The demo: the music study from nothing, served on this machine, and learned from simulated listeners."""
