"""posteriors: its update in a Python loop, which is how PyTorch runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import posteriors as package
import torch
from torch.nn.functional import cross_entropy, softplus

from ..problems import ALPHA, L
from . import Task, flat

PACKAGES = ("posteriors", "torch", "numpy")
RESAMPLED = False


def p1(params: dict, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Logistic regression."""
    logits = X @ params["beta"]
    return (y * logits - softplus(logits)).sum()


def p2(params: dict, X: torch.Tensor) -> torch.Tensor:
    """Two Gaussian components with unit variances."""
    return torch.logaddexp(*(-((X - params[k]) ** 2).sum(1) / 2 for k in ("t1", "t2"))).sum()


def p3(params: dict, X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A network of one hidden layer."""
    hidden = softplus(X @ params["w1"] + params["b1"])
    return -cross_entropy(hidden @ params["w2"] + params["b2"], y, reduction="sum")


MODELS, VARIANCES = {"P1": p1, "P2": p2, "P3": p3}, {"P1": 10, "P2": 10, "P3": 1}


def build(task: Task) -> Callable[[int], np.ndarray]:
    """Its Hamiltonian samplers take the root of ε; five updates stand for an iteration of five."""
    start = task.options.get("mode", task.start)
    params = {k: torch.from_numpy(v.copy()) for k, v in start.items()}
    data = [torch.from_numpy(v) for v in task.data.values()]
    if task.problem == "P3":
        data[1] = data[1].long()

    def log_posterior(params: dict, batch: list) -> tuple[torch.Tensor, Any]:
        prior = -sum((x**2).sum() for x in params.values()) / (2 * VARIANCES[task.problem])
        scale = task.rows / task.minibatch
        return prior + scale * MODELS[task.problem](params, *batch), torch.tensor([])

    root = task.stepsize**0.5
    transform = {
        "sgld": lambda: package.sgmcmc.sgld.build(log_posterior, task.stepsize / 2),
        "sghmc": lambda: package.sgmcmc.sghmc.build(log_posterior, root, alpha=ALPHA / root),
        "sgnht": lambda: package.sgmcmc.sgnht.build(log_posterior, root, alpha=ALPHA / root),
    }[task.kind]()
    torch.manual_seed(0)
    state = transform.init(params)
    inner = L if task.kind == "sghmc" else 1

    def call(steps: int) -> np.ndarray:
        nonlocal state
        chain = {
            k: np.empty((steps if task.stored else 0, *v.shape), np.float32)
            for k, v in params.items()
        }
        for k in range(steps):
            for _ in range(inner):
                index = torch.randint(task.rows, (task.minibatch,))
                state, _ = transform.update(state, [x[index] for x in data], inplace=False)
            if task.stored:
                for name, x in state.params.items():
                    chain[name][k] = x.numpy()
        return flat(chain) if task.stored else state.params["w1"].numpy()

    return call
