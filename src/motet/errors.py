"""What can go wrong, as one tree.

    MotetError
    ├── InvalidData          what came cannot be learned from (also a ValueError)
    │   ├── NotFinite          NaN or infinite
    │   ├── WrongDimension     another number of columns, or arrays of different lengths
    │   ├── InvalidNoise       a noise variance that is not positive
    │   └── EmptyData          nothing where something is needed
    ├── InvalidModel         a model that means nothing (also a ValueError)
    │   ├── UnknownKernel      not in the closed list
    │   └── NotPositiveDefinite   a kernel that is none on these inputs
    ├── InvalidStudy         a study file that cannot be used (also a ValueError)
    ├── NotKnown             nothing under that name (also a LookupError)
    │   ├── UnknownTask        the engine holds no example of it
    │   ├── UnknownExample     the task has no such triple
    │   └── UnknownName        not in the catalogue
    ├── InvalidStore         a database that cannot be used (also a ValueError)
    ├── TooMany              more than a limit allows
    ├── TooLarge             a request with more bytes than the server takes: send less at once
    ├── Busy                 too much to do, or no database: the same later may work
    ├── NotAllowed           the study's policy does not allow it now
    ├── BudgetSpent          no further release would keep the promised privacy
    ├── InvalidRelease       a disclosed database that cannot be used (also a ValueError)
    │   └── StaleRelease       coefficients and database are of different releases
    ├── NotReleased          the first release is still to come
    ├── Unauthorized         no token, or one that opens nothing
    ├── Forbidden            a token that does not open this
    ├── ServerError          an error of the server without a name here, or an answer that is none
    └── Unreachable          no answer, however often it was tried (also a ConnectionError)

Every class has a ``code``, stable and readable by a program. A message says what was expected, what came,
and what to do.
"""

from typing import Self


class MotetError(Exception):
    """Root of the tree."""

    code = "motet_error"

    def __init__(self, *args: object, where: str | None = None) -> None:
        """``where`` is the place in what was given, such as "examples.3", a study file's key or a model's field."""
        super().__init__(*args)
        self.where = where

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


class InvalidModel(MotetError, ValueError):
    code = "invalid_model"


class UnknownKernel(InvalidModel):
    code = "unknown_kernel"


class NotPositiveDefinite(InvalidModel):
    code = "not_positive_definite"


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
