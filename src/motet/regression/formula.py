"""A formula of mixed models, such as ``"y ~ age*sex + (1 + age | id)"``, as columns and kernels.

The fixed part is read by ``formulaic``: categories, interactions, transformations; its columns are the bias. A random
term, in parentheses and with a bar, is a kernel: of the shifts if its group is the task, or lies within one; of the
average if its group crosses the tasks. A formula is code, which ``formulaic`` runs: take none from strangers.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np

from motet.arrays import Array, Index, distinct
from motet.errors import InvalidData, InvalidModel, MotetError
from motet.kernels.classes import ConstantKernel, DotProduct, Identity, Kernel, Linear, On
from motet.model.basis import Landmarks
from motet.tables.dates import orders_of
from motet.tables.frames import columns_of, complete_rows
from motet.tables.missing import Missing, missing_column
from motet.text import first_few
from motet.tuning.defaults import MAX_GROWING_INPUTS

Group: TypeAlias = tuple[str, ...]  # the columns whose values, together, name a level
INTERCEPT_COLUMN = "Intercept"
NEW_LEVEL = -1  # the code of a level that was not learned
MAX_TASK_ROWS = 1000  # above which another group is the task, if there is one
POSSIBLE = "possible are (1 | id), (1 + age | id), (0 + age | id), (1 + age || id), (1 | a) + (1 | b) and (1 | a/b)"
NAME = re.compile(r"`([^`]+)`|([^\W\d]\w*)")
UNKNOWN_NAME = re.compile(r"(?:name '|`)([^'`]+)['`] is not (?:defined|present)")
SETTLED = ("common", "individual", "bias", "basis", "task")  # settings of a regressor that a formula has


# --- as it is written ---


@dataclass(frozen=True)
class Term:
    """A random term: its effects, as written, vary between the levels of a group."""

    effects: str
    group: Group
    independent: bool  # written with two bars

    def __str__(self) -> str:
        return f"({self.effects} {'||' if self.independent else '|'} {':'.join(self.group)})"


def parse(text: str) -> tuple[str, str, list[Term]]:
    """What is left of ~, the fixed part, and the random terms."""
    sides = _parts(text, "~") if isinstance(text, str) else []
    if len(sides) != 2 or not sides[0].strip():
        raise InvalidModel(f'expected a formula such as "y ~ age + (1 | id)", got {text!r:.80}')
    fixed: list[str] = []
    random: list[Term] = []
    for part in (part.strip() for part in _parts(sides[1], "+")):
        if part[:1] == "(" and part[-1:] == ")" and len(_parts(part[1:-1], "|")) > 1:
            random += _terms(part)
        elif len(_parts(part.replace("(", " ").replace(")", " "), "|")) > 1:
            raise InvalidModel(f"write each random term in its own parentheses: y ~ x + (1 | id); got {part!r:.60}")
        else:
            fixed.append(part)
    if not random:
        raise InvalidModel(f"expected a random term in {text!r:.80}; {POSSIBLE}")
    return sides[0].strip(), " + ".join(fixed) or "1", random


def _terms(part: str) -> Iterator[Term]:
    """The random terms that one in parentheses means: a/b is a, and b within a."""
    effects, *bars, grouping = (piece.strip() for piece in _parts(part[1:-1], "|"))
    groups = [name.strip() for name in _parts(grouping, "/")]
    columns = [[name.strip().strip("`") for name in _parts(group, ":")] for group in groups]
    if bars not in ([], [""]) or not effects or not all(name for group in columns for name in group):
        raise InvalidModel(f"cannot read the random term {part!r:.60}; {POSSIBLE}")
    for k in range(1, len(columns) + 1):
        yield Term(effects, tuple(name for group in columns[:k] for name in group), bool(bars))


def _parts(text: str, mark: str) -> list[str]:
    """A text, divided at marks that stand outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'`":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == mark and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


# --- with its data ---


@dataclass(frozen=True, eq=False)
class Effects:
    """The columns of a random term: their recipe, and their numbers among the inputs."""

    term: Term
    recipe: Any
    columns: list[int]
    has_intercept: bool

    @property
    def are_correlated(self) -> bool:
        return not self.term.independent and len(self.columns) + self.has_intercept > 1

    def kernel(self, level: Kernel | None) -> Kernel:
        """Of these effects in each task, or in each ``level`` of another group."""
        if self.are_correlated:
            return On(Linear(np.eye(1 + len(self.columns)).tolist()), self.columns)
        slopes = [On(DotProduct(0.0), [k]) for k in self.columns]
        constants = [ConstantKernel(1.0) if level is None else level] * self.has_intercept
        return reduce(add, constants + [slope if level is None else level * slope for slope in slopes])


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula that has seen data: it turns frames into inputs and tasks, and settles the model.

    ``levels`` are the codes of groups that are a column of the inputs, behind those of ``names``, and not the task;
    the ``crossed`` among them are in the average.
    """

    text: str
    variables: list[str]  # columns of the frame that the effects read
    recipe: Any  # of the fixed part
    fixed: list[int]
    random: list[Effects]
    names: list[str]
    task: Group
    levels: dict[Group, dict[Hashable, int]]
    crossed: list[Group]

    def __str__(self) -> str:
        return self.text

    @classmethod
    def read(cls, text: str, data: Any) -> tuple[Formula, Any, Array, Index]:
        """The formula, the complete rows of the data, their outputs, and which rows these are."""
        outcome, fixed_part, terms = parse(text)
        frame = _frame(data)
        for term in terms:
            _check_group(term, frame)
        variables = _variables([fixed_part, *(term.effects for term in terms)], frame)
        _check_dates(variables, text, frame)
        groups = [name for term in terms for name in term.group]
        needed = list(dict.fromkeys([*_variables([outcome], frame), *variables, *groups]))
        complete = complete_rows(Missing(needed, frame[needed].isna().to_numpy()))
        frame = frame.iloc[complete]
        y = _matrix(f"0 + {outcome}", frame)
        if y.shape[1] != 1:
            raise InvalidModel(f"expected one column of numbers left of ~, got {outcome!r}, which is {first_few(y)}")
        matrix = _matrix(fixed_part, frame)
        if INTERCEPT_COLUMN not in matrix:
            raise InvalidModel(f"expected a fixed part with an intercept, got {fixed_part!r}: leave 0 or -1 out")
        names = [name for name in matrix if name != INTERCEPT_COLUMN]
        fixed, random = list(range(len(names))), []
        for term in terms:
            columns = _matrix(term.effects, frame)
            names += [name for name in columns if name not in (INTERCEPT_COLUMN, *names)]
            numbers = [names.index(name) for name in columns if name != INTERCEPT_COLUMN]
            random.append(Effects(term, columns.model_spec, numbers, INTERCEPT_COLUMN in columns))
            _check_effects(random[-1])
        task = _task(random, frame)
        others = [group for group in dict.fromkeys(term.group for term in terms) if group != task]
        levels = {group: {label: k for k, label in enumerate(dict.fromkeys(_labels(frame, group)))} for group in others}
        crossed = [group for group in others if not _is_within(group, task, frame)]
        names = names or [INTERCEPT_COLUMN] * (not levels)  # an input has at least one column
        formula = cls(text, variables, matrix.model_spec, fixed, random, names, task, levels, crossed)
        return formula, frame, y.to_numpy(dtype=np.float64)[:, 0], complete

    def inputs(self, data: Any, *, learning: bool) -> tuple[Any, list[Hashable] | None]:
        """The inputs as a frame, and the task of each row; None if the group's column is not there.

        Levels that were not learned are new ones to predict, and refused to learn.
        """
        frame = _frame(data)
        X = np.full((len(frame), len(self.names) + len(self.levels)), np.nan)
        there = [name for name in self.variables if name in frame]
        complete = np.flatnonzero(frame[there].notna().all(axis=1))
        for recipe in (self.recipe, *(effects.recipe for effects in self.random)):
            matrix = _evaluated(recipe, frame.iloc[complete])
            for name in matrix:
                if name in self.names:
                    X[complete, self.names.index(name)] = matrix[name]
        for k, (group, codes) in enumerate(self.levels.items(), start=len(self.names)):
            labels = _labels(frame, group) if set(group) <= set(frame) else [None] * len(frame)
            unknown = [label for label in labels if label not in codes]
            if learning and unknown:
                known = f"levels of {':'.join(group)} that were fitted"
                raise InvalidData(f"expected {known}, got {unknown[0]!r}; from_formula learns all anew")
            X[:, k] = [codes.get(label, NEW_LEVEL) for label in labels]
        names = [*self.names, *(f"level of {':'.join(group)}" for group in self.levels)]
        tasks = _labels(frame, self.task) if learning or set(self.task) <= set(frame) else None
        return type(frame)(X, columns=names), tasks

    def settings(self, data: Any) -> dict[str, Any]:
        """What a regressor is given: the kernels, the bias, and a basis that spans the levels of crossed groups."""
        shift: list[Kernel] = []
        average: list[Kernel] = []
        for effects in self.random:
            group = effects.term.group
            level = None if group == self.task else On(Identity(), [self._code(group)])
            (average if group in self.crossed else shift).append(effects.kernel(level))
        return {
            "common": reduce(add, average) if average else None,
            "individual": reduce(add, shift),
            "bias": self.fixed or "constant",
            "basis": self._basis(data) if average else None,
        }

    def _code(self, group: Group) -> int:
        return len(self.names) + list(self.levels).index(group)

    def _basis(self, data: Any) -> Landmarks | None:
        """Landmarks that span all crossed effects: for each level an input amid the others, and one for each slope.

        None, the basis that grows, if the different inputs are not many more.
        """
        X = self.inputs(data, learning=True)[0].to_numpy()
        center, std = X.mean(axis=0), X.std(axis=0)
        center[len(self.names) :] = 0
        points = []
        for group in self.crossed:
            slopes = {k for effects in self.random if effects.term.group == group for k in effects.columns}
            for code in self.levels[group].values():
                point = center.copy()
                point[self._code(group)] = code
                points += [point, *(point + std[k] * np.eye(len(point))[k] for k in sorted(slopes))]
        growing = len(distinct(X)[0]) <= max(MAX_GROWING_INPUTS, 2 * len(points))
        return None if growing else Landmarks(np.array(points))


# --- frames, groups and columns ---


def _frame(data: Any) -> Any:
    """A pandas frame, with rows numbered from 0."""
    pandas = _library("pandas")
    if not columns_of(data):
        raise InvalidData(f"a formula reads a data frame, got {type(data).__name__}")
    if isinstance(data, pandas.DataFrame):
        return data.reset_index(drop=True)
    return pandas.DataFrame({name: data[name].to_numpy() for name in data.columns})


def _check_group(term: Term, frame: Any) -> None:
    for name in term.group:
        if name not in frame:
            raise missing_column(str(term), name, map(str, frame))


def _check_dates(variables: list[str], text: str, frame: Any) -> None:
    """Raises if dates are text, which would be a category of which every day is a value; C(date) asks for that."""
    for name in variables:
        cells = [] if frame[name].dtype.kind in "biufcmM" else frame[name].dropna().tolist()
        if cells and f"C({name}" not in text and orders_of(cells):
            raise InvalidData(
                f"expected numbers or a category in {name!r}, got dates such as {cells[0]!s:.30}; convert them, for "
                "example to days since the first (pandas.to_datetime reads them; say dayfirst)"
            )


def _check_effects(effects: Effects) -> None:
    term = effects.term
    if not effects.columns and not effects.has_intercept:
        raise InvalidModel(f"the random term {term} has no effects; {POSSIBLE}")
    if effects.are_correlated and not effects.has_intercept:
        raise InvalidModel(f"correlated slopes need an intercept beside them, got {term}; add 1, or write ||")
    if term.independent and len(effects.columns) > len(effects.recipe.terms) - effects.has_intercept:
        raise InvalidModel(f"effects of a category are not independent, got {term}; write |")


def _task(random: Sequence[Effects], frame: Any) -> Group:
    """The group whose levels are the tasks: the one that leaves the fewest levels for the average."""
    groups = list(dict.fromkeys(effects.term.group for effects in random))
    correlated = list(dict.fromkeys(effects.term.group for effects in random if effects.are_correlated))
    if len(correlated) > 1:
        names = " and ".join(":".join(group) for group in correlated)
        raise InvalidModel(f"correlated slopes are possible in one group, got them in {names}; write || in all but one")
    sizes = {group: np.unique(_codes(frame, group), return_counts=True)[1] for group in groups}

    def cost(group: Group) -> tuple[bool, int, int]:
        others = [other for other in groups if not _is_within(other, group, frame)]
        return max(sizes[group]) > MAX_TASK_ROWS, sum(len(sizes[other]) for other in others), -len(sizes[group])

    return min(correlated or groups, key=cost)


def _is_within(inner: Group, outer: Group, frame: Any) -> bool:
    """Whether each level of one group lies in a single level of the other."""
    codes = _codes(frame, inner)
    return len(np.unique(np.column_stack([codes, _codes(frame, outer)]), axis=0)) == len(np.unique(codes))


def _codes(frame: Any, group: Group) -> Array:
    return np.asarray(frame.groupby(list(group), observed=True, sort=False).ngroup())


def _labels(frame: Any, group: Group) -> list[Hashable]:
    for name in group:
        if name not in frame:
            raise missing_column("the formula's data", name, map(str, frame))
    columns = [frame[name].astype(object).tolist() for name in group]
    return columns[0] if len(columns) == 1 else list(zip(*columns))


def _variables(texts: Sequence[str], frame: Any) -> list[str]:
    """The columns of the frame that formulas name."""
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", " ".join(texts))
    names = {quoted or name for quoted, name in NAME.findall(unquoted)}
    return [name for name in frame if name in names]


def _matrix(formula: str, frame: Any) -> Any:
    """The columns of a formula of fixed or random effects at these rows; the frame keeps their recipe."""
    formulaic = _library("formulaic")
    try:
        recipe = formulaic.Formula(formula)
    except formulaic.errors.FormulaicError as error:
        raise InvalidModel(f"cannot read {formula!r:.60} in the formula: {str(error).splitlines()[0]}") from None
    return _evaluated(recipe, frame, na_action="ignore")


def _evaluated(recipe: Any, frame: Any, **options: Any) -> Any:
    """The columns of a recipe at some rows."""
    errors = _library("formulaic").errors
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", errors.DataMismatchWarning)
            return recipe.get_model_matrix(frame, context={}, **options)
    except errors.DataMismatchWarning as reason:
        raise InvalidData(f"a category has a value that was not fitted: {reason}") from None
    except errors.FormulaicError as error:
        name = UNKNOWN_NAME.search(str(error))
        if name is None:
            raise InvalidModel(f"cannot compute the formula's columns: {error!s:.200}") from None
        raise missing_column("the formula's data", name[1], map(str, frame)) from None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MotetError(f"a formula needs {name}: pip install 'motet[formula]'") from None
