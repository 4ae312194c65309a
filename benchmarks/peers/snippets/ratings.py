"""Ratings of artists by listeners, predicted for artists that a listener has not rated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from motet.arrays import Array


def motet(user: Array, artist: Array, y: Array, tags: Array, user_new: Array, artist_new: Array) -> Array:
    from motet import MixedEffectRegressor
    from motet.kernels import RBF, ConstantKernel, DotProduct

    kernels: dict[str, Any] = {"common": ConstantKernel(math.e) * RBF(1.0), "individual": DotProduct(0.0)}
    reg = MixedEffectRegressor(**kernels, bias="none", basis=None)
    return reg.fit(tags[artist], y, task=user).predict(tags[artist_new], task=user_new)


def motet_names(user: Array, artist: Array, y: Array, user_new: Array, artist_new: Array, **_: Array) -> Array:
    from motet import MixedEffectRegressor
    from motet.kernels import ConstantKernel, Identity

    reg = MixedEffectRegressor(Identity(), ConstantKernel(1.0), bias="constant")
    return reg.fit(artist[:, None], y, task=user).predict(artist_new[:, None], task=user_new)


def surprise(user: Array, artist: Array, y: Array, user_new: Array, artist_new: Array, **_: Array) -> Array:
    import pandas as pd
    from surprise import SVD, Dataset, Reader

    data = pd.DataFrame({"user": user, "artist": artist, "y": y})
    reader = Reader(rating_scale=(y.min(), y.max()))
    svd = SVD(random_state=0).fit(Dataset.load_from_df(data, reader).build_full_trainset())
    return np.array([svd.predict(*pair).est for pair in zip(user_new, artist_new)])


def surprise_search(user: Array, artist: Array, y: Array, user_new: Array, artist_new: Array, **_: Array) -> Array:
    import pandas as pd
    from surprise import SVD, Dataset, Reader
    from surprise.model_selection import GridSearchCV

    frame = pd.DataFrame({"user": user, "artist": artist, "y": y})
    data = Dataset.load_from_df(frame, Reader(rating_scale=(y.min(), y.max())))
    grid = {"n_factors": [20, 100], "n_epochs": [20, 100], "lr_all": [0.005, 0.02], "reg_all": [0.02, 0.1]}
    search = GridSearchCV(SVD, grid | {"random_state": [0]}, measures=["rmse"], cv=3, refit=True)
    search.fit(data)
    return np.array([search.predict(*pair).est for pair in zip(user_new, artist_new)])
