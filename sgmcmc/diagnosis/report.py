"""What `diagnose` returns."""

from __future__ import annotations

import html
import textwrap
from typing import Any

import numpy as np

from ..summary import Summary


class Diagnosis(Summary):
    """How far draws can be trusted: a table by coordinate, and findings in words.

    It is a dict of the columns, and prints as a table with the findings below. Coordinates are
    unconstrained ones: of a positive parameter, its logarithm.

    - `mean`, `sd`, `ess`, `r_hat`: as in `Draws.summary`.
    - `away`: how far the mean is from the centre of control variates, in standard deviations.
    - `noise`: the share of the gradient's variance that is noise of minibatches.
    - `expected`: the variance of the draws over that of the posterior, as it must be with this step
      size and this noise if the posterior is Gaussian.
    - `width`: the same as it is, by the gradients of the log posterior at the draws (Stein's
      identity), on any posterior. `width_error` is its Monte Carlo error.
    - `half`: with ``halve=True``, the variance over that at half the step size.

    Attributes
    ----------
    findings : list of str
        What is wrong or doubtful, and what to change.
    ok : bool
        True if there are no findings.
    left_out : list of str
        Checks that were not possible, and why.
    overall : dict
        Numbers that are not by coordinate: `width` of all coordinates together with `width_error`,
        and `width_expected` by the sampler's own identity; `ksd`, the kernel Stein discrepancy,
        and `ksd_exact`, about that of as many exact draws of a Gaussian, `ksd_draws`; `temperature`
        and `temperature_expected` by parameter.
    names : list of str
        The names of the rows.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> draws = sgmcmc.sgldcv(
    ...     log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, n_iters=5000, seed=1,
    ...     verbose=False,
    ... )
    >>> diagnosis = sgmcmc.diagnose(draws)
    >>> diagnosis.ok, diagnosis.findings
    (True, [])
    >>> bool(0.9 < diagnosis["width"][0] < 1.2)
    True
    """

    def __init__(
        self,
        names: list[str],
        columns: dict[str, np.ndarray],
        overall: dict[str, Any],
        findings: list[str],
        left_out: list[str],
        traces: dict[str, Any],
    ) -> None:
        super().__init__(names, columns)
        self.overall, self.findings, self.left_out = overall, findings, left_out
        self.traces = traces

    @property
    def ok(self) -> bool:
        """True if there are no findings."""
        return not self.findings

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *self.lines()])

    def lines(self) -> list[str]:
        """What is printed below the table."""
        known, found = self.overall, []
        if "width" in known:
            expected = known.get("width_expected")
            said = "" if expected is None else f"; by the sampler's own statistics {expected:.3g}"
            found.append(
                f"variance over the posterior's: {known['width']:.3g} "
                f"± {known['width_error']:.2g}{said}"
            )
        if "ksd" in known:
            found.append(
                f"kernel Stein discrepancy of {known['ksd_draws']:,} draws: {known['ksd']:.3g}; "
                f"of exact draws of a Gaussian about {known['ksd_exact']:.3g}"
            )
        for name, T in known.get("temperature", {}).items():
            expected = known["temperature_expected"][name]
            found.append(f"temperature of {name}: {T:.3g}; right draws have {expected:.3g}")
        found += ["", "No findings." if self.ok else "Findings:"]
        for line in self.findings:
            found.append(textwrap.fill(line, 96, initial_indent="- ", subsequent_indent="  "))
        for line in self.left_out:
            found.append(textwrap.fill(f"Not looked at: {line}.", 96, subsequent_indent="  "))
        return found

    def _repr_html_(self) -> str:
        lines = [f"<p>{html.escape(line)}</p>" for line in self.lines() if line]
        return "\n".join([super()._repr_html_(), *lines])

    def plot(self) -> Any:
        """Draw traces of the slowest coordinates, gradient noise and width, and temperatures.

        Needs matplotlib: `pip install 'sgmcmc[plot]'`.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from .plot import figure

        return figure(self)
