"""All exceptions of the package, as one tree.

    MotetError
    ├── InvalidData          data that cannot be learned from (also a ValueError)
    │   ├── NotFinite          a number is NaN, infinite or too large
    │   ├── WrongDimension     the number of columns is wrong, or arrays differ in length
    │   ├── InvalidNoise       a noise variance is not positive
    │   ├── NoEvidence         too few rows, or rows too alike, to choose settings by
    │   └── EmptyData          at least one row, column or name is needed
    ├── InvalidModel         settings that make no model (also a ValueError)
    │   ├── UnknownKernel      the kernel is not in the closed list
    │   └── NotPositiveDefinite   the kernel's matrix on these inputs is not positive definite
    ├── InvalidStudy         a study file that cannot be used (also a ValueError)
    ├── NotKnown             there is nothing of that name (also a LookupError)
    │   ├── UnknownTask        the engine has no example of this task
    │   ├── UnknownExample     the task has no such example
    │   └── UnknownName        the name is not in the catalogue
    ├── InvalidStore         a database that cannot be used (also a ValueError)
    ├── TooMany              a limit on the number of examples or clients is exceeded
    ├── TooLarge             the request has more bytes than the server accepts: send less at once
    ├── Busy                 the server or its database is overloaded: try again later
    ├── NotAllowed           the study's policy does not allow this now
    ├── BudgetSpent          the privacy budget allows no further release
    ├── Unusable             the model cannot be solved with a client's examples: replace or remove some
    ├── InvalidRelease       a release that cannot be used (also a ValueError)
    │   └── StaleRelease       the coefficients belong to another release
    ├── NotReleased          there is no release yet
    ├── Unauthorized         the token is missing, or not valid
    ├── Forbidden            the token is valid, but not for this
    ├── ServerError          the server failed, or its reply is not Motet's
    └── Unreachable          the server did not reply, after all attempts (also a ConnectionError)

Every class has a ``code`` for programs, which does not change. A message states what was expected, what was received,
and what to do. ``where`` is the place that the error is about, if there is one.
"""

import sys
import warnings
from collections.abc import Collection, Hashable
from typing import Any, Self


class MotetError(Exception):
    """Root of the tree."""

    code = "motet_error"

    def __init__(self, *args: object, where: str | None = None) -> None:
        """``where`` is the place in the data, such as "examples.3", a key of a study file or a field of a model."""
        super().__init__(*args)
        self.where = where

    def at(self, where: str) -> Self:
        """The same error, about this place."""
        self.where = where
        return self

    def reworded(self, message: str) -> Self:
        """The same error with another message."""
        return type(self)(message, where=self.where)


class InvalidData(MotetError, ValueError):
    code = "invalid_data"


class NotFinite(InvalidData):
    code = "not_finite"


class WrongDimension(InvalidData):
    code = "wrong_dimension"


class InvalidNoise(InvalidData):
    code = "invalid_noise"


class EmptyData(InvalidData):
    code = "empty_data"


class NoEvidence(InvalidData):
    code = "no_evidence"
    model: Any = None  # as it was given, if a search for its settings began


class InvalidModel(MotetError, ValueError):
    code = "invalid_model"


class UnknownKernel(InvalidModel):
    code = "unknown_kernel"


class NotPositiveDefinite(InvalidModel):
    code = "not_positive_definite"
    tasks: Collection[Hashable] = ()  # those on whose inputs it is not, if an engine knows them


class InvalidStudy(MotetError, ValueError):
    code = "invalid_study"


class NotKnown(MotetError, LookupError):
    code = "not_known"


class UnknownTask(NotKnown):
    code = "unknown_task"


class UnknownExample(NotKnown):
    code = "unknown_example"


class UnknownName(NotKnown):
    code = "unknown_name"


class InvalidStore(MotetError, ValueError):
    code = "invalid_store"


class TooMany(MotetError):
    code = "too_many"


class TooLarge(MotetError):
    code = "too_large"


class Busy(MotetError):
    code = "busy"


class NotAllowed(MotetError):
    code = "not_allowed"


class BudgetSpent(MotetError):
    code = "budget_spent"


class Unusable(MotetError):
    code = "unusable"


class InvalidRelease(MotetError, ValueError):
    code = "invalid_release"


class StaleRelease(InvalidRelease):
    code = "stale_release"


class NotReleased(MotetError):
    code = "not_released"


class Unauthorized(MotetError):
    code = "unauthorized"


class Forbidden(MotetError):
    code = "forbidden"


class ServerError(MotetError):
    code = "server_error"


class Unreachable(MotetError, ConnectionError):
    code = "unreachable"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning of the line that called this package, however deep within it the reason was found."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
