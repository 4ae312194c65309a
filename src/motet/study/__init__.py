"""The study file: its schema, how it is read and refused, what a start pins, and a template for a new one."""

from motet.study.study import Limits, Release, Server, Study
from motet.study.template import template

__all__ = ["Limits", "Release", "Server", "Study", "template"]
