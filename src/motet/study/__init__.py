"""The study file: its schema, how it is read, the limits of its examples, what fixes its settings, a template.

From a table to a study: ``pilot`` reads the table, ``proposal`` finds the settings, ``evaluation`` (beside
``baselines``, by ``scores``) tells what the study is worth.

The store, the server and the command line load studies; privacy, learning and the model know nothing of files.
"""

from motet.study.evaluation import Evaluation, evaluate
from motet.study.schema import Limits, Release, Server
from motet.study.study import Study
from motet.study.template import Draft

__all__ = ["Draft", "Evaluation", "Limits", "Release", "Server", "Study", "evaluate"]
