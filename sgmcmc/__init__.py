"""Stochastic gradient Markov chain Monte Carlo in TensorFlow."""

from .api import (
    scir,
    scir_setup,
    scircv,
    scircv_setup,
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
    sgrld,
    sgrld_setup,
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
    "scir",
    "scir_setup",
    "scircv",
    "scircv_setup",
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
    "sgrld",
    "sgrld_setup",
    "step",
]
