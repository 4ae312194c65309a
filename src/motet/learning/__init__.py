"""The examples of many tasks, their sums and their evidence, and the two ways to use them.

``Engine`` takes examples as they come; ``MixedEffectRegressor`` is the same behind scikit-learn's interface, and
chooses its settings. What is where:

    what is kept          triples, batches, information, admission, engine
    one model solved      system, evidence, predictions
    long tasks            condensation, moments, sql
    settings by evidence  defaults, components, gradient, search, tuning
    data frames           frames, formula, regressor
    what comes out        results, description, effects, residuals, profiles, comparison, summary, tables
"""

from motet.learning.engine import Engine
from motet.learning.evidence import Evidence
from motet.learning.information import Information
from motet.learning.regressor import MixedEffectRegressor

__all__ = ["Engine", "Evidence", "Information", "MixedEffectRegressor"]
