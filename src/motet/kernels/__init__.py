"""Kernels: which there are, what is known of each, how they are carried as JSON, and how they are evaluated.

``classes`` has ours beside scikit-learn's; ``registry`` is the closed list, with what is known of each kernel, and
``formulas`` registers the built-in ones; ``spec`` carries kernels as plain data; ``algebra`` walks those that are made
of others. ``gram`` and ``derivatives`` evaluate them, over stacks of tasks too; ``finite_rank`` has the explicit
features of those that have few, and ``nystrom`` approximates others in a task's own inducing inputs.
"""

import motet.kernels.formulas  # noqa: F401  # registers the built-in kernels
from motet.kernels.algebra import on_columns
from motet.kernels.classes import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Identity,
    Kernel,
    Linear,
    Matern,
    On,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
    check_dimension,
    is_fixed,
)
from motet.kernels.registry import number, register

__all__ = [
    "RBF",
    "ConstantKernel",
    "DotProduct",
    "ExpSineSquared",
    "Exponentiation",
    "Identity",
    "Kernel",
    "Linear",
    "Matern",
    "On",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "check_dimension",
    "is_fixed",
    "number",
    "on_columns",
    "register",
]
