"""One call that tells how far draws can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks, tree
from ..divergence import ChainDiverged
from ..draws import Draws
from ..origin import Origin
from ..running import run
from ..sampler import Sampler
from ..streams import TUNING, stream
from . import findings
from .discrepancy import discrepancy
from .evidence import Evidence, evidence_of, free
from .expected import expected
from .halving import halved, why_not_halved
from .report import Diagnosis
from .scores import Scores, scores_of, why_no_scores
from .width import Estimated, by_the_sampler, estimated, relative, temperatures

ENOUGH = 50  # effective draws, of which fewer say nothing of the variance
OWN_PURPOSE = 1 << 20  # the first chunk of random numbers, which no run reaches


def diagnose(
    of: Draws | Sampler,
    *,
    halve: bool = False,
    bias: float | None = None,
    n_iters: int = 10_000,
) -> Diagnosis:
    """Say how far draws can be trusted, and what to change where they cannot.

    Effective sample sizes and R̂ see how well a chain moves, but not whether it moves around the
    posterior: with too large a step they are at their best. This compares the draws with the
    posterior itself, by its gradients at up to 4,000 of them, and with what the step size and the
    noise of minibatches must do to them. On good draws, there is a finding by chance in about one
    of a thousand calls.

    Parameters
    ----------
    of : Draws or Sampler
        What a sampler returned; or what a `*_setup` returned, which is then run for `n_iters`
        iterations. Draws know their sampler, and keep its data in memory, until they are pickled.
    halve : bool
        Run a second chain with half the step size and twice the iterations, and compare variances
        and means. It is the one check that needs no gradients, and sees bias on any posterior.
    bias : float, optional
        The share of the posterior's variance by which that of the draws may be wrong. By default
        that of which the step size was chosen, or .05. Twice as much is reported.
    n_iters : int
        Of a sampler, how many iterations to run.

    Returns
    -------
    Diagnosis
        A dict of the columns of a table, which prints with the findings. `findings` is a list of
        texts, `ok` is True if it is empty, and `plot()` draws a picture.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> draws = sgmcmc.sgldcv(  # a step of nearly twice the posterior's variance
    ...     log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, 1.9e-3, n_iters=5000, seed=1,
    ...     verbose=False,
    ... )
    >>> diagnosis = sgmcmc.diagnose(draws, bias=0.05)
    >>> diagnosis.ok
    False
    >>> bool(1.7 < diagnosis["width"][0] < 2.1)  # the variance of the draws over what is right
    True
    """
    if isinstance(of, Sampler):
        draws = run(of, checks.whole("n_iters", n_iters))
    elif isinstance(of, Draws):
        draws = of
    else:
        raise TypeError(
            "diagnose takes what a sampler returned, Draws, or what a *_setup returned, a Sampler, "
            f"not {checks.described(of)}"
        )
    halve = checks.boolean("halve", halve)
    if bias is None:
        bias = draws.settings.get("tuning", {}).get("bias") or 0.05
    bias = checks.number("bias", bias, above=0, below=1)
    looked = Looked(evidence_of(draws), bias)
    looked.at_the_chain()
    if looked.evidence.origin is not None:
        try:
            looked.at_the_sampler(halve)
        finally:
            looked.evidence.origin.source.give_back()
    return looked.diagnosis()


class Looked:
    """What was seen so far: columns, numbers and findings."""

    def __init__(self, evidence: Evidence, bias: float) -> None:
        self.evidence, self.bias = evidence, bias
        self.columns = evidence.columns()
        self.overall: dict[str, Any] = {}
        self.findings: list[str] = []
        self.comparisons = 4 * evidence.p + 8
        self.scores: Scores | None = None
        self.effect: Any = None

    @property
    def ess(self) -> float:
        """The smallest number of effective draws."""
        found = self.columns["ess"]
        return float(np.nanmin(found)) if np.isfinite(found).any() else 0.0

    def at_the_chain(self) -> None:
        """Look at mixing, and at the distance from the centre of control variates."""
        evidence, columns = self.evidence, self.columns
        self.findings += findings.of_mixing(evidence.names, columns, len(evidence.x))
        self.findings += findings.of_independence(evidence, columns["ess"], self.comparisons)
        origin = evidence.origin
        if origin is not None and origin.mode is not None:
            with np.errstate(invalid="ignore", divide="ignore"):
                columns["away"] = (columns["mean"] - centre(origin)) / columns["sd"]
                error = columns["mcse"] / columns["sd"]
            names = evidence.names, columns["away"], error, columns["ess"], self.comparisons
            self.findings += findings.of_centre(*names)
        columns.pop("mcse")

    def at_the_sampler(self, halve: bool) -> None:
        """Look at temperatures and gradients, and if wished at a chain with half the step."""
        self.at_temperatures()
        why = why_no_scores(self.evidence.origin)
        if why is None:
            self.at_gradients()
        else:
            self.evidence.left_out.append(f"gradient noise, width and Stein discrepancy, as {why}")
        if halve:
            self.at_half_steps()

    def at_temperatures(self) -> None:
        """Look at the temperature of samplers with momentum."""
        if self.evidence.origin.engine.tempered:
            if "temperature" in self.evidence.draws.stats:
                self.evidence.left_out.append("the temperature, as the chain is tempered")
            return
        found = temperatures(self.evidence)
        if found:
            self.overall["temperature"] = {t.name: float(t.mean) for t in found}
            self.overall["temperature_expected"] = {t.name: t.expected for t in found}
        if self.evidence.epoch is not None:  # noise that is taken back later heats the momentum
            found = [t for t in found if t.thermostat is not None]
        self.findings += findings.of_temperature(found, self.bias, self.comparisons)

    def at_gradients(self) -> None:
        """Look at gradient noise, at the variance of the draws, and at the Stein discrepancy."""
        evidence, columns, overall = self.evidence, self.columns, self.overall
        origin = evidence.origin
        if not (columns["sd"] > 0).all():
            evidence.left_out.append("gradients: some coordinates do not move")
            return
        rng = stream(origin.seed, TUNING, OWN_PURPOSE)
        self.scores = scores = scores_of(evidence, rng)
        if not np.isfinite(scores.exact).all():
            evidence.left_out.append("gradients: they are not finite at some draws")
            return
        if scores.moved is None:
            evidence.left_out.append(
                "gradient noise, as this estimator has a state of its own, or needs numbers of "
                "rows or random numbers"
            )
        else:
            noise = (scores.in_free(scores.noise) ** 2).mean(axis=(0, 1))
            true = (scores.exact**2).mean(axis=(0, 1))
            columns["noise"] = noise / np.maximum(noise + true, 1e-300)
        shrunk = origin.engine.model.chart.is_shrunk
        self.effect = None if shrunk else expected(origin.engine.dynamics, scores, evidence.epoch)
        if self.effect is not None:
            columns["expected"] = self.effect.inflation
        else:
            evidence.left_out.append(
                "the variance to expect: not known of this sampler, step size or model"
            )
        whole, each = relative(evidence, scores)
        width = estimated(each)
        columns["width"], columns["width_error"] = width.mean, width.error
        few = np.nan_to_num(columns["ess"], nan=0.0) < ENOUGH
        if few.any():
            evidence.left_out.append(
                f"the variance of {few.sum():,} coordinates, and with it the Stein discrepancy: "
                f"there are {self.ess:.0f} effective draws of "
                f"{evidence.names[int(np.nanargmin(columns['ess']))]}, and {ENOUGH} are needed"
            )
        self.at_width(scores, whole, width, ~few)
        if few.any():
            return
        # Half as many draws as are effective are nearly independent. With thermostats, squares are
        # slower than means.
        ess = min(self.ess, width.ess.min()) / 2
        ksd = discrepancy(evidence.x, scores, ess, self.bias, self.comparisons)
        if ksd is None:
            evidence.left_out.append("the Stein discrepancy: it needs 100 effective draws")
        else:
            overall |= {"ksd": ksd.ksd, "ksd_exact": ksd.exact, "ksd_draws": ksd.m}
            self.findings += findings.of_discrepancy(ksd, bool(self.findings))

    def at_width(
        self, scores: Scores, whole: np.ndarray, width: Estimated, known: np.ndarray
    ) -> None:
        """Compare variances with those of the posterior, and with the sampler's own identity.

        Of coordinates that are not `known`, there are too few effective draws.
        """
        evidence, overall = self.evidence, self.overall
        (mean,), (error,), (ess,) = estimated(whole)
        overall |= {"width": float(mean), "width_error": float(error)}
        back = None if self.effect is None else self.effect.taken_back
        own = by_the_sampler(evidence, scores, back) if known.all() else None
        if own is not None:
            known_error, value = own
            overall["width_expected"] = float(np.mean(value))
            difference = estimated(whole - value)
            off = float(difference.mean[0]), float(np.hypot(difference.error[0], known_error))
            self.findings += findings.of_identity(
                *off, float(difference.ess[0]), mean, overall["width_expected"], self.comparisons
            )
        self.findings += findings.of_width(
            *(evidence, width, known, (mean, error, ess)),
            *(self.effect, self.bias, self.comparisons),
        )

    def at_half_steps(self) -> None:
        """Compare with a chain of half the step size."""
        why = why_not_halved(self.evidence)
        if why is not None:
            self.evidence.left_out.append(f"half steps, as {why}")
            return
        try:
            found = halved(self.evidence)
        except ChainDiverged:
            self.findings.append(findings.DIVERGED)
            return
        self.columns["half"] = np.exp(found.log_ratio)
        self.findings += findings.of_half_steps(
            self.evidence.names, found, self.bias, self.comparisons
        )

    def diagnosis(self) -> Diagnosis:
        """All of it."""
        evidence = self.evidence
        traces = {"x": evidence.x, "stats": evidence.draws.stats}
        traces["chained"] = evidence.draws.settings.get("n_chains") is not None
        columns = {k: np.asarray(v) for k, v in self.columns.items()}
        return Diagnosis(
            evidence.names, columns, self.overall, self.findings, evidence.left_out, traces
        )


def centre(origin: Origin) -> np.ndarray:
    """The centre of control variates, in free coordinates laid end to end."""
    values = tree.map(lambda a: np.asarray(a)[None, None], origin.mode)
    found = free(values, origin.engine.model.chart.spaces)
    return np.concatenate([np.ravel(a) for a in tree.leaves(found)]).astype(float)
