"""What is learned: kernels evaluated, catalogues, bases, the model, and one task's examples under it.

Everything above uses this room; it uses only kernels, tables and arrays. Nothing here knows of other tasks.
"""

from motet.model.basis import Eigen, Features, Landmarks
from motet.model.catalogue import Catalogue
from motet.model.model import Model

__all__ = ["Catalogue", "Eigen", "Features", "Landmarks", "Model"]
