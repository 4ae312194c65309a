"""The study file: its schema, how it is read, the limits of its examples, the settings that a start pins, a template.

The store, the server and the command line load studies; privacy, learning and the model know nothing of files.
"""

from motet.study.schema import Limits, Release, Server
from motet.study.study import Study
from motet.study.template import template

__all__ = ["Limits", "Release", "Server", "Study", "template"]
