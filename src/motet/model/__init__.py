"""What is learned: kernels as JSON and evaluated, catalogues, bases, the model, and one task's examples under it.

All rooms above use this one; it uses only the modules of the package root. Nothing here knows of other tasks.
"""

from motet.model.basis import BasisSpec, Eigen, Features, Landmarks, register_basis
from motet.model.catalogue import Catalogue
from motet.model.model import Model

__all__ = ["BasisSpec", "Catalogue", "Eigen", "Features", "Landmarks", "Model", "register_basis"]
