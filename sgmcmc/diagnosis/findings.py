"""Differences that chance does not explain, in plain words, with what to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dynamics.psgld import PSGLD
from ..dynamics.sgld import SGLD
from .evidence import Evidence
from .halving import Halved
from .levels import beyond, level
from .width import Estimated, Temperature

FEW = 100  # effective draws
APART = 1.05  # R̂
FAR = 3.0  # standard deviations from the centre of control variates
OFF = 0.02  # by which a sampler's own identity may be missed: rounding, thermostats that move
DRIFT = 0.05  # of half a thermostat's friction, by which the variance changes
SHOWN = 4
INDEPENDENT = 0.5  # with a smaller autocorrelation, SGLD inflates the variance by a third
DIVERGED = (
    "The chain diverges even with half the step size: divide stepsize by 10 or more, or leave it "
    "out, so that it is chosen"
)
NOISY = 0.5  # a share of the inflation above which noise, not the step itself, is to blame


def named(names: Sequence[str], which: np.ndarray, values: np.ndarray, form: str) -> str:
    """The worst few coordinates, with their values."""
    found = np.flatnonzero(which)
    order = found[np.argsort(-np.abs(values[found]))]
    listed = ", ".join(f"{names[i]} ({form.format(values[i])})" for i in order[:SHOWN])
    more = len(found) - SHOWN
    return listed + (f" and {more:,} more" if more > 0 else "")


def of_mixing(names: Sequence[str], columns: dict[str, np.ndarray], chains: int) -> list[str]:
    """Too few effective draws, or chains that do not agree."""
    found, ess = [], columns["ess"]
    few = np.nan_to_num(ess, nan=FEW) < FEW
    if few.any():
        worst = ", ".join(f"{names[i]} ({ess[i]:.0f})" for i in by_size(few, -ess))
        found.append(
            f"Few effective draws of {worst}: the chain has not been all over the posterior, and "
            "means and variances of these are not yet known. Run longer; or take coordinates in "
            "which the posterior is round: leave out stepsize, or give precondition"
        )
    still = np.isnan(ess)
    if still.any():
        which = ", ".join(names[i] for i in np.flatnonzero(still)[:SHOWN])
        found.append(f"No draw of {which} differs from the first: the step size is too small")
    if "r_hat" in columns:
        apart = (np.nan_to_num(columns["r_hat"]) > APART) & (few | by_chance(columns, chains))
        if apart.any():
            which = named(names, apart, columns["r_hat"], "{:.2f}")
            found.append(
                f"Chains do not agree: R̂ is above {APART} for {which}. Run longer, with a longer "
                "burn_in; chains that stay apart are in different modes"
            )
    return found


def by_chance(columns: dict[str, np.ndarray], chains: int) -> np.ndarray:
    """Whether R̂ of halves of chains is larger than chance makes it, with so many effective draws.

    Then R̂² − 1 is about the variance of means of halves over that of draws.
    """
    halves, p = 2 * chains, len(columns["ess"])
    free, each = halves - 1, np.maximum(columns["ess"] / halves, 1)
    z = float(level(p, np.inf))
    chi = free * (1 - 2 / (9 * free) + z * np.sqrt(2 / (9 * free))) ** 3  # Wilson and Hilferty
    with np.errstate(invalid="ignore"):
        return columns["r_hat"] ** 2 - 1 > chi / free / each


def by_size(which: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The largest few of those marked."""
    found = np.flatnonzero(which)
    return found[np.argsort(-size[found])][:SHOWN]


def of_independence(evidence: Evidence, ess: np.ndarray, comparisons: int) -> list[str]:
    """Successive draws of a sampler with small steps that are nearly independent.

    On a Gaussian, the autocorrelation ρ of SGLD is 1 − ελ/2, and its step alone makes the variance
    2 / (1 + ρ) times what is right.
    """
    if evidence.thin != 1 or evidence.draws.settings.get("sampler") not in ("sgld", "sgldcv"):
        return []
    rho, n = evidence.lag_one(), evidence.x.shape[0] * evidence.x.shape[1]
    which = np.abs(beyond(rho, n**-0.5, INDEPENDENT, 1)) > level(comparisons, n)
    which &= np.nan_to_num(ess) > FEW
    if not which.any():
        return []
    return [
        "Successive draws are nearly independent, which Langevin dynamics with a right step never "
        f"makes them; their autocorrelation is, of {named(evidence.names, which, rho, '{:.2g}')}. "
        f"By the step alone the variance is about {2 / (1 + rho[which].min()):.2g} times the "
        "posterior's. Divide stepsize by 5 or more, or leave it out, so that it is chosen"
    ]


def of_centre(
    names: Sequence[str], away: np.ndarray, error: np.ndarray, ess: np.ndarray, comparisons: int
) -> list[str]:
    """Draws far from the point on which control variates are centred."""
    z = beyond(away, error, -FAR, FAR)
    far = np.abs(z) > level(comparisons, np.nan_to_num(ess, nan=1.0))
    if not far.any():
        return []
    return [
        f"Draws are far from the centre of the control variates, in standard deviations: "
        f"{named(names, far, away, '{:.3g}')}. So far away, control variates add noise instead of "
        "removing it. Where the mode is not typical of the posterior, as in hierarchical models, "
        "take a sampler without control variates (sgld, sghmc); or give mode= near the mean of "
        "the draws"
    ]


def of_temperature(found: list[Temperature], bias: float, comparisons: int) -> list[str]:
    """Temperatures that are not those of right draws."""
    said = []
    for t in found:
        bound, over = level(comparisons, t.ess), t.mean / t.expected
        if t.thermostat is not None:
            drifts = abs(t.drift) / 2 > max(bias, DRIFT)
            if drifts or abs(beyond(t.mean, t.error, 1 - OFF, 1 + OFF)) > bound:
                said.append(
                    f"The thermostat of {t.name} has not adapted: the temperature is {t.mean:.3g} "
                    f"instead of 1, with a friction of {t.thermostat:.3g}. "
                    + (
                        "Friction at 1 cannot remove more heat: make stepsize smaller or "
                        "minibatches larger"
                        if t.thermostat > 0.9
                        else "Make burn_in longer, or thermostat_rate larger (1e-3)"
                    )
                )
            elif t.width is not None and t.thermostat / 2 > 2 * bias:
                said.append(
                    f"The thermostat of {t.name} has a friction of {t.thermostat:.3g}, with which "
                    f"draws have {1 - t.thermostat / 2:.3g} times the posterior's variance: make "
                    "stepsize smaller or minibatches larger"
                )
        elif abs(beyond(over, t.error / t.expected, 1 - 2 * bias, 1 + 2 * bias)) > bound:
            what = (
                "Gradient noise heats the chain, or the step is near the limit of stability: make "
                "stepsize smaller, friction larger or minibatches larger"
                if over > 1
                else "The momentum is not that of its equation"
            )
            said.append(
                f"The temperature of {t.name} is {t.mean:.3g}, and of right draws it is "
                f"{t.expected:.3g}: their variance is about {over:.2g} times the posterior's. "
                f"{what}"
            )
    return said


def remedy(evidence: Evidence, factor: float, is_noise: bool) -> str:
    """What to change where draws are too wide by a factor that allows so much less of a step."""
    settings = evidence.draws.settings
    controlled = evidence.origin is not None and evidence.origin.mode is not None
    if settings.get("tuning", {}).get("bias"):
        how = "give a smaller bias"
    else:
        by = f"{float(f'{max(2, factor):.2g}'):,.3g}" if factor < 100 else "a hundred"
        how = f"divide stepsize by {by} or more, or leave it out, so that it is chosen"
    if not is_noise:
        return f"The step itself is too large: {how}"
    if controlled:
        return f"The noise of minibatches does that: {how}; or take larger minibatches"
    return (
        f"The noise of minibatches does that: {how}; or take larger minibatches or control "
        "variates (gradient='control_variates')"
    )


def of_expected(evidence: Evidence, effect: Any, bias: float) -> list[str]:
    """A variance that step size and noise must make wrong."""
    if effect is None:
        return []
    wide = effect.inflation > 1 + 2 * bias
    if not wide.any():
        return []
    worst = int(np.argmax(effect.inflation))
    is_noise = blame(effect, worst)
    factor = (effect.inflation[worst] - 1) / bias
    return [
        "With this step size and this noise, the variance must be wrong by the factor: "
        f"{named(evidence.names, wide, effect.inflation, '{:.3g}')}. "
        f"{remedy(evidence, factor, is_noise)}"
    ]


def blame(effect: Any, worst: int) -> bool:
    """Whether noise is to blame for most of the inflation."""
    by_step = effect.without_noise[worst] - 1
    return bool(by_step < (1 - NOISY) * (effect.inflation[worst] - 1))


def of_width(
    evidence: Evidence,
    width: Estimated,
    known: np.ndarray,
    whole: tuple[float, float, float],
    effect: Any,
    bias: float,
    comparisons: int,
) -> list[str]:
    """Draws wider or narrower than the posterior."""
    low, high = 1 - 2 * bias, 1 + 2 * bias
    z = np.where(known, beyond(width.mean, width.error, low, high), 0.0)
    bound = level(comparisons, width.ess)
    mean, error, ess = whole
    z_whole = float(beyond(mean, error, low, high)) if known.all() else 0.0
    off_whole = abs(z_whole) > level(comparisons, ess)
    wide, narrow = z > bound, z < -bound
    if not (wide.any() or narrow.any() or off_whole):
        return of_expected(evidence, effect, bias)
    said = []
    if wide.any() or (off_whole and z_whole > 0):
        which = named(evidence.names, wide, width.mean, "{:.3g}") or "all together"
        value = np.where(wide, width.mean, 0)
        worst = int(np.argmax(value)) if wide.any() else int(np.argmax(width.mean))
        top = max(float(value[worst]), mean if off_whole else 0)
        is_noise = effect is not None and blame(effect, worst)
        what = remedy(evidence, (top - 1) / bias, is_noise)
        if effect is not None and effect.inflation[worst] < 1 + (top - 1) / 4:
            what = (
                "Step size and noise do not explain it: the chain may not yet be where the "
                "posterior is (longer burn_in), or there is a mistake in the sampler"
            )
        said.append(
            f"Draws are too wide: their variance, over the posterior's, is of {which} "
            f"(all together {mean:.3g}). Effective draws and R̂ do not see this. {what}"
        )
    if narrow.any() or (off_whole and z_whole < 0):
        which = named(evidence.names, narrow, 1 - width.mean, "{:.3g} too small") or "all together"
        said.append(
            f"Draws are too narrow: their variance, over the posterior's, is of {which} "
            f"(all together {mean:.3g}). {narrower(evidence)}"
        )
    return said


def narrower(evidence: Evidence) -> str:
    """What to change where draws are too narrow."""
    dynamics = evidence.origin.engine.dynamics
    if isinstance(dynamics, PSGLD) or not isinstance(dynamics, SGLD):
        return (
            "Make stepsize smaller; resample_momentum=True and thermostats with much friction do "
            "this, too. Otherwise the chain has not yet been all over the posterior: run longer"
        )
    return (
        "No step size does that: the chain has not yet been all over the posterior (run longer), "
        "or the noise that it adds is too small"
    )


def of_identity(
    off: float, error: float, ess: float, seen: float, own: float, comparisons: int
) -> list[str]:
    """A variance that is not what the sampler's own equation makes it."""
    if abs(beyond(off, error, -OFF, OFF)) <= level(comparisons, ess):
        return []
    return [
        f"The chain is not what its equation says: by gradients its variance is {seen:.3g} times "
        f"the posterior's, and in its stationary distribution it must be {own:.3g}. Either it is "
        "not there yet (longer burn_in), or its dynamics is wrong, as with noise of another size"
    ]


def of_discrepancy(found: Any, is_explained: bool) -> list[str]:
    """Draws that are not of the posterior."""
    if not found.is_too_large or is_explained:
        return []
    return [
        f"The draws are not of the posterior: the kernel Stein discrepancy of {found.m:,} of them "
        f"is {found.ksd:.3g}, and of right ones about {found.exact:.3g}. Nothing else shows why: "
        "compare with draws of half the step size (halve=True), and run longer"
    ]


def of_half_steps(names: Sequence[str], found: Halved, bias: float, comparisons: int) -> list[str]:
    """Variances or means that change with the step size."""
    said = []
    bound = level(comparisons, found.ess)
    off = np.abs(beyond(found.log_ratio, found.error, *np.log([1 - bias, 1 + bias]))) > bound
    if off.any():
        which = named(names, off, np.exp(found.log_ratio), "{:.3g}")
        said.append(
            f"The variance changes with the step size: over that at half the step it is, of "
            f"{which}. So it is wrong at this one by about twice the difference from 1. Make "
            "stepsize (or bias) smaller until nothing changes"
        )
    shifted = np.abs(beyond(found.shift, found.shift_error, -2 * bias, 2 * bias)) > bound
    if shifted.any():
        which = named(names, shifted, found.shift, "{:.2g} sds")
        said.append(
            f"The mean changes with the step size: it differs from that at half the step, of "
            f"{which}. Make stepsize (or bias) smaller, or run longer if it drifts"
        )
    return said
