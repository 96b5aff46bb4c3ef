"""Checks that the parts of a sampler suit one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import tree
from .charts import counters_of
from .checks.coordinates import DENSE
from .dynamics import Dynamics
from .dynamics.corrected import Corrected
from .dynamics.geodesic import Geodesic, given
from .dynamics.gmc import GMC
from .dynamics.mixed import Mixed
from .dynamics.psgld import PSGLD
from .dynamics.scir import SCIR
from .dynamics.sgbarker import SGBarker
from .dynamics.sgnht import SGNHT
from .estimators import Estimator
from .estimators.control_variate import ControlVariate
from .estimators.counts import Counted
from .estimators.gradient import Gradient
from .estimators.saga import SAGA
from .estimators.svrg import SVRG
from .minibatches import Strata
from .spaces import Chart
from .tuning.laws import CHOICES


def check(
    dynamics: Dynamics,
    gibbs: Any,
    chart: Chart,
    estimator: Estimator,
    temperature: Any,
    minibatches: str | Strata,
    n: int,
    N: int,
) -> None:
    """Check that the parts of a sampler can be combined."""
    if estimator.row_probabilities is not None and minibatches != "independent":
        raise ValueError(
            "minibatches must be 'auto' or 'independent' with row_probabilities, by which rows are "
            "drawn anew for each minibatch"
        )
    if isinstance(dynamics, GMC) and n < N:
        raise ValueError(
            "minibatch_size must be 'all' for GMC, whose Metropolis step needs all rows"
        )
    blocks = dynamics.blocks.values() if isinstance(dynamics, Mixed) else ()
    if any(isinstance(block, GMC) for block in blocks):
        raise ValueError("blocks must not have GMC, whose Metropolis step is for all parameters")
    if temperature != 1 and any(has_gradient_noise(part) for part in parts_of(dynamics)):
        raise ValueError("gradient_noise must be None where temperature is not 1")
    if dynamics.needs_rows:
        name, instead = by_rows(dynamics)
        if estimator.carried or estimator.needs_index or counters_of(dynamics):
            raise ValueError(
                f"{name} must be {instead}: it is estimated from the gradients of single rows, "
                "which only 'plain' and 'control_variates' have, without counts or "
                "row_probabilities"
            )
        if n < 2:
            raise ValueError(
                f"minibatch_size must be 2 or more where {name} is estimated: one row tells no "
                "variance"
            )
        if temperature != 1:
            raise ValueError(f"{name} must be {instead} where temperature is not 1")
        if isinstance(minibatches, Strata):
            raise ValueError(
                f"{name} must be {instead} with strata: it is estimated as if minibatches were "
                "simple random samples, which have more noise"
            )
    if isinstance(minibatches, Strata) and isinstance(estimator, SAGA) and N % n:
        raise ValueError(
            f"minibatch_size must divide the number of rows, {N:,}, for SAGA with strata, not "
            f"{n:,}: a minibatch could have a row twice"
        )
    by_counts = any(tree.leaves(chart.has_counts))
    if isinstance(estimator, ControlVariate) and (gibbs or by_counts):
        raise ValueError(
            "gradient='control_variates' needs parameters that all move by gradients of the log "
            "posterior, but some are probabilities, or drawn by Gibbs steps: take 'plain', or "
            "scircv for probabilities"
        )
    if isinstance(estimator, (SVRG, SAGA)) and by_counts:
        raise ValueError(
            "gradient must be 'plain' with probabilities that move by counts, as in SCIR and "
            f"SGRLD, not {type(estimator).__name__}(): differences of counts may be negative"
        )
    if by_counts and temperature != 1:
        raise ValueError(
            "temperature must be 1 with probabilities that move by counts, as in SCIR and SGRLD"
        )


def check_stream(
    name: str,
    dynamics: Dynamics,
    estimator: Estimator,
    minibatches: str | Strata,
    n: int,
    buffer_rows: int,
) -> None:
    """Check that a sampler can use rows in the order in which they come."""
    instead = "pass arrays, or files whose rows can be read at random, as with sgmcmc.parquet"
    if estimator.needs_index or isinstance(estimator, Counted):
        who = "SAGA" if isinstance(estimator, SAGA) else name
        raise ValueError(
            f"dataset must not be a stream for {who}, which needs rows by number: {instead}"
        )
    if minibatches not in ("auto", "reshuffled"):
        raise ValueError(
            "minibatches must be 'auto' or 'reshuffled' for a stream, whose rows come in order: "
            f"{instead}"
        )
    if minibatches == "auto" and dynamics.white_noise:
        raise ValueError(
            f"dataset must not be a stream for {name} with these settings, which needs independent "
            f"minibatches: {instead}"
        )
    if buffer_rows < n:
        raise ValueError(f"buffer_size must be at least minibatch_size, {n:,}, not {buffer_rows:,}")


def parts_of(dynamics: Dynamics) -> list[Dynamics]:
    """The blocks of `mixed`, or the one dynamics that there is."""
    return list(dynamics.blocks.values()) if isinstance(dynamics, Mixed) else [dynamics]


def has_gradient_noise(dynamics: Dynamics) -> bool:
    """Whether less noise is added by the covariance of gradients, which has no temperature."""
    return isinstance(dynamics, Geodesic) and given(dynamics.gradient_noise)


def unmoved(dynamics: Dynamics) -> str:
    """Return the name of a part that does not move at the temperature 0, or ''."""
    parts = parts_of(dynamics)
    return next((type(part).__name__ for part in parts if isinstance(part, SGBarker)), "")


def by_rows(dynamics: Dynamics) -> tuple[str, str]:
    """The argument that is estimated from single rows, and what else it may be."""
    if any(isinstance(part, Corrected) and part.needs_rows for part in parts_of(dynamics)):
        return "noise_estimate", "None"
    return "gradient_noise", "None or given"


def check_tuning(
    name: str,
    dynamics: Dynamics,
    estimator: Estimator,
    temperature: Any,
    stepsize: Any,
    precondition: Any,
    rescale: bool,
    is_auto: bool,
    minibatches: str | Strata,
    chart: Chart,
    p: int,
) -> None:
    """See that step sizes can be chosen, if that is wanted, for p free coordinates."""
    if precondition is not None and chart.has_manifold:
        raise ValueError(
            "precondition must be None for parameters on a manifold, which has no white coordinates"
        )
    is_diagonal = precondition is None or isinstance(precondition, Mapping)
    is_diagonal |= isinstance(precondition, str) and precondition == "diagonal"
    if rescale and (stepsize is not None or is_diagonal):
        raise ValueError(
            "rescale=True needs stepsize=None and white coordinates, such as "
            "precondition='hessian': otherwise it is not known by how much draws are too wide"
        )
    if is_auto and (stepsize is not None or type(dynamics) not in CHOICES):
        raise ValueError(
            "minibatch_size='auto' needs stepsize=None, and a sampler that moves by gradients: a "
            "size is chosen by the effective draws to expect from each"
        )
    if stepsize is not None:
        return
    if isinstance(dynamics, SCIR):
        if dynamics.counts is not None:
            raise ValueError(
                "stepsize must be given with counts: without it, the step size is chosen by the "
                "counts of single rows, which log_lik tells"
            )
        return
    if type(dynamics) not in CHOICES:
        known = ", ".join(sorted(kind.__name__.lower() for kind in CHOICES))
        raise ValueError(
            f"{name} needs stepsize: without it, step sizes are chosen for {known}, scir and "
            "their versions with control variates alone"
        )
    if type(estimator) not in (Gradient, ControlVariate):
        raise ValueError(
            "stepsize must be given with gradient of your own: without it, step sizes are chosen "
            "by the noise of gradients, which is known for 'plain' and 'control_variates' alone"
        )
    if p > DENSE and precondition is not None and not is_diagonal:
        raise ValueError(
            f"stepsize must be given with a covariance of {p:,} parameters as precondition: "
            f"without it, there may be {DENSE:,}, or scales by parameter"
        )
    if isinstance(dynamics, PSGLD) and precondition is not None:
        raise ValueError("precondition must be None for psgld without stepsize: it has its own")
    if estimator.row_probabilities is not None and p > DENSE:
        raise ValueError(
            f"stepsize must be given with row_probabilities for {p:,} parameters: without it, step "
            f"sizes are chosen for at most {DENSE:,}"
        )
    if isinstance(dynamics, (SGNHT, PSGLD, Geodesic)) and p > DENSE:
        raise ValueError(
            f"{name} needs stepsize for {p:,} parameters: without it, step sizes of this sampler "
            f"are chosen for at most {DENSE:,}. tune helps to choose, or take sghmc"
        )
    if temperature != 1:
        raise ValueError("stepsize must be given where temperature is not 1")
    if dynamics.white_noise and minibatches == "reshuffled":
        raise ValueError(
            f"stepsize must be given with minibatches='reshuffled' for {name}, which is made for "
            "minibatches that are independent"
        )
    if isinstance(dynamics, Corrected) and dynamics.needs_rows:
        raise ValueError(
            "stepsize must be given with noise_estimate: step sizes are chosen for the whole noise "
            "of gradients"
        )
    if isinstance(dynamics, SGNHT) and dynamics.thermostat != "parameter":
        raise ValueError(
            f"stepsize must be given with thermostat={dynamics.thermostat!r}: step sizes are "
            "chosen so that the directions of each parameter have equal noise, for which "
            "'parameter' is right"
        )
    if isinstance(dynamics, Geodesic):
        for argument in ("friction", "gradient_noise"):
            if given(getattr(dynamics, argument)):
                raise ValueError(
                    f"stepsize must be given with {argument}: step sizes are chosen for a friction "
                    "by momentum=, and for the whole noise of gradients"
                )
    if getattr(dynamics, "resample_momentum", False):
        raise ValueError(
            "stepsize must be given with resample_momentum=True, whose bias no step size removes"
        )
    if "stepsize" in tree.leaves(getattr(dynamics, "thermostat_rate", ())):
        raise ValueError("stepsize must be given with thermostat_rate='stepsize'")
