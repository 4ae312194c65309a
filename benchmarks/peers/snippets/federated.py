"""A linear model learned over clients: one exact pass over each client's sums, or rounds of averaged weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from motet.arrays import Array

ROUNDS, STEPS, RATE = 30, 5, 0.1  # of averaging, and of descent between
TUNING_ROUNDS = 4  # of each client alone


def motet(X: Array, y: Array, client: Array, X_new: Array, client_new: Array) -> Array:
    from motet import Model, Moments
    from motet.kernels import Linear

    first, *others = (Moments.of_rows(client[client == k], X[client == k], y[client == k]) for k in np.unique(client))
    moments = sum(others, first)
    start = Model(None, Linear(np.eye(1 + X.shape[1]).tolist()), alpha=0.5, lam=1.0, bias="linear")
    release = moments.disclose(moments.tune(start).model)
    estimates = {k: moments.estimate(release, k) for k in np.unique(client)}
    return np.array([estimates[k].predict(x[None])[0] for k, x in zip(client_new, X_new)])


def averaging(X: Array, y: Array, client: Array, X_new: Array, client_new: Array) -> Array:  # noqa: ARG001
    def descend(w: Array, own: Array) -> Array:
        for _ in range(STEPS):
            w = w - RATE * Z[own].T @ (Z[own] @ w - y[own]) / own.sum()
        return w

    Z = np.column_stack([np.ones(len(X)), X])
    clients = [client == k for k in np.unique(client)]
    weights = np.zeros(Z.shape[1])
    for _ in range(ROUNDS):
        weights = np.average([descend(weights, own) for own in clients], axis=0, weights=[own.sum() for own in clients])
    return weights[0] + X_new @ weights[1:]


def fine_tuning(X: Array, y: Array, client: Array, X_new: Array, client_new: Array) -> Array:
    def descend(w: Array, own: Array) -> Array:
        for _ in range(STEPS):
            w = w - RATE * Z[own].T @ (Z[own] @ w - y[own]) / own.sum()
        return w

    Z = np.column_stack([np.ones(len(X)), X])
    clients = {k: client == k for k in np.unique(client)}
    sizes = [own.sum() for own in clients.values()]
    weights = np.zeros(Z.shape[1])
    for _ in range(ROUNDS):
        weights = np.average([descend(weights, own) for own in clients.values()], axis=0, weights=sizes)
    tuned = dict.fromkeys(clients, weights)
    for _ in range(TUNING_ROUNDS):
        tuned = {k: descend(tuned[k], own) for k, own in clients.items()}
    return np.array([tuned[k][0] + x @ tuned[k][1:] for k, x in zip(client_new, X_new)])


def flower(X: Array, y: Array, client: Array, X_new: Array, client_new: Array) -> Array:  # noqa: ARG001
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    Z = np.column_stack([np.ones(len(X)), X])
    rounds, steps, rate, weights = ROUNDS, STEPS, RATE, list[Any]()
    clients, server = ClientApp(), ServerApp()

    @clients.train()  # type: ignore[untyped-decorator]
    def train(message: Any, context: Any) -> Any:
        own = client == context.node_config["partition-id"]
        w = message.content["arrays"].to_numpy_ndarrays()[0].copy()
        for _ in range(steps):
            w -= rate * Z[own].T @ (Z[own] @ w - y[own]) / own.sum()
        sent = {"arrays": ArrayRecord([w]), "metrics": MetricRecord({"num-examples": int(own.sum())})}
        return Message(content=RecordDict(sent), reply_to=message)

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:  # noqa: ARG001
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=len(np.unique(client)))
        result = strategy.start(grid, ArrayRecord([np.zeros(Z.shape[1])]), num_rounds=rounds)
        weights.extend(result.arrays.to_numpy_ndarrays())

    run_simulation(server, clients, num_supernodes=len(np.unique(client)))
    return weights[0][0] + X_new @ weights[0][1:]
