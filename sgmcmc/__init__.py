"""Stochastic gradient Markov chain Monte Carlo in TensorFlow."""

from .api import (
    sghmc,
    sghmc_setup,
    sghmccv,
    sghmccv_setup,
    sgld,
    sgld_setup,
    sgldcv,
    sgldcv_setup,
    sgnht,
    sgnht_setup,
    sgnhtcv,
    sgnhtcv_setup,
)
from .data import get_dataset, list_datasets
from .draws import Draws
from .mode import ModeNotFound
from .run import get_params, run, step
from .sampler import ChainDiverged, Sampler
from .stepsize import decay

__all__ = [
    "ChainDiverged",
    "Draws",
    "ModeNotFound",
    "Sampler",
    "decay",
    "get_dataset",
    "get_params",
    "list_datasets",
    "run",
    "sghmc",
    "sghmc_setup",
    "sghmccv",
    "sghmccv_setup",
    "sgld",
    "sgld_setup",
    "sgldcv",
    "sgldcv_setup",
    "sgnht",
    "sgnht_setup",
    "sgnhtcv",
    "sgnhtcv_setup",
    "step",
]
