"""Stochastic gradient Markov chain Monte Carlo in TensorFlow."""

__version__ = "0.1.0"  # setup.cfg reads it from here

from . import notices as notices  # first: it imports TensorFlow

# isort: split
from . import combine as combine
from . import moments as moments
from . import random as random
from . import stein as stein
from .api import (
    baoab,
    baoab_setup,
    gmc,
    gmc_setup,
    gsgnht,
    gsgnht_setup,
    mixed,
    mixed_setup,
    psgld,
    psgld_setup,
    sample,
    sample_setup,
    scir,
    scir_setup,
    scircv,
    scircv_setup,
    sgbarker,
    sgbarker_setup,
    sggmc,
    sggmc_setup,
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
from .columns import parquet
from .data import get_dataset, list_datasets
from .diagnosis.diagnose import diagnose
from .diagnosis.report import Diagnosis
from .distributed.shards import Shards
from .divergence import ChainDiverged
from .draws import Draws
from .dynamics import Dynamics, Noise
from .dynamics.baoab import BAOAB
from .dynamics.gmc import GMC
from .dynamics.gsgnht import GSGNHT
from .dynamics.psgld import PSGLD
from .dynamics.scir import SCIR
from .dynamics.sgbarker import SGBarker
from .dynamics.sggmc import SGGMC
from .dynamics.sghmc import SGHMC
from .dynamics.sgld import SGLD
from .dynamics.sgnht import SGNHT
from .dynamics.sgrld import SGRLD
from .estimators import Estimate, Estimator
from .estimators.control_variate import ControlVariate
from .estimators.saga import SAGA
from .estimators.svrg import SVRG
from .gibbs import Gibbs
from .in_order import Stream, stream
from .mode import ModeNotFound
from .models.documents import tf_idf
from .models.lda import TopicModel, fit_lda
from .models.sam import fit_sam
from .models.spherical_topics import SphericalTopicModel
from .nearest import kl_divergence
from .prediction import Prediction
from .progress import Report
from .race import tune
from .race.table import Race
from .reduction import zero_variance
from .running import get_params, run, step
from .sampler import Sampler
from .spaces import Space
from .spaces.flat import Ball, Euclidean
from .spaces.manifolds import Manifold, Simplex, Sphere, Torus
from .spaces.stiefel import Stiefel
from .stepsize import cyclical, decay
from .store.reading import StoredArray, load_draws
from .tuning import TuningWarning
from .vonmises import von_mises_fisher_log_prob
from .watch import TrustWarning

__all__ = [
    "BAOAB",
    "GMC",
    "GSGNHT",
    "PSGLD",
    "SAGA",
    "SCIR",
    "SGGMC",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "SGRLD",
    "SVRG",
    "Ball",
    "ChainDiverged",
    "ControlVariate",
    "Diagnosis",
    "Draws",
    "Dynamics",
    "Estimate",
    "Estimator",
    "Euclidean",
    "Gibbs",
    "Manifold",
    "ModeNotFound",
    "Noise",
    "Prediction",
    "Race",
    "Report",
    "SGBarker",
    "Sampler",
    "Shards",
    "Simplex",
    "Space",
    "Sphere",
    "SphericalTopicModel",
    "Stiefel",
    "StoredArray",
    "Stream",
    "TopicModel",
    "Torus",
    "TrustWarning",
    "TuningWarning",
    "baoab",
    "baoab_setup",
    "cyclical",
    "decay",
    "diagnose",
    "fit_lda",
    "fit_sam",
    "get_dataset",
    "get_params",
    "gmc",
    "gmc_setup",
    "gsgnht",
    "gsgnht_setup",
    "kl_divergence",
    "list_datasets",
    "load_draws",
    "mixed",
    "mixed_setup",
    "parquet",
    "psgld",
    "psgld_setup",
    "run",
    "sample",
    "sample_setup",
    "scir",
    "scir_setup",
    "scircv",
    "scircv_setup",
    "sgbarker",
    "sgbarker_setup",
    "sggmc",
    "sggmc_setup",
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
    "stream",
    "tf_idf",
    "tune",
    "von_mises_fisher_log_prob",
    "zero_variance",
]
