"""What a run returns: the draws by name, with statistics and the settings of the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import checks, tree
from .prediction import Prediction, pointwise, predicted
from .summary import Summary, summarize

RENAMED = {"log_posterior": "lp"}  # statistics that have another name in ArviZ
RENAME = "rename one, in dicts for sgmcmc.Draws(values, stats, draws.settings).to_arviz()"


class Draws(Mapping):
    """The draws of a run, by the name of the parameter or test function.

    Arrays have shape (draws, ...), or (chains, draws, ...) if `n_chains` was given. Nested
    parameters are nested dicts.

    Attributes
    ----------
    stats : dict
        Statistics that go with the draws:

        - ``log_posterior``: an estimate of the log posterior, up to a constant, at the point where
          the last step to this draw began, from the minibatch of that step. For probabilities, it
          is of the density of their logarithms.
        - ``temperature``, of samplers with momentum: νᵀν/(pε). If the draws are right, its average
          is 1 / (1 − α/2) for SGHMC. SGNHT brings it to 1, whatever the error of the draws.
        - ``thermostat``, of SGNHT: the friction ξ. It is like the parameter itself with
          ``thermostat="coordinate"`` and, the diagonal of its matrix, with ``"matrix"``.
        - ``control_variates``, of `scircv`: the share of components that used them.
        - ``log_omega``, with ``keep_log=True``: log ω of the draws of a parameter ``omega``.
        - ``gradients``, with ``keep_gradients=True``: the estimate of the gradient of the log
          posterior at the draw, in the form of the parameters. It is by the free coordinates of
          constrained ones, which are in ``coordinates`` then.

        Temperatures, thermostats, control variates and gradients are dicts by parameter, even if
        there is only one parameter: ``draws.stats["temperature"]["beta"]``. All but gradients,
        coordinates and log ω are one number for each draw and chain.
    settings : dict
        The name of the sampler, its arguments and seed, and the versions of the packages.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> draws = sgmcmc.sgld(
    ...     log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, 1e-4, n_iters=500, seed=1,
    ...     verbose=False,
    ... )
    >>> draws
    Draws(mean (500,); sgld, seed 1)
    >>> bool(0.8 < draws["mean"].mean() < 1.2)
    True
    >>> draws.stats["log_posterior"].shape, draws.settings["minibatch_size"]
    ((500,), 10)
    >>> draws = sgmcmc.sgnht(
    ...     log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, 1e-5, n_iters=500, seed=1,
    ...     verbose=False,
    ... )
    >>> draws.stats["temperature"]["mean"].shape  # by parameter
    (500,)
    """

    def __init__(self, values: dict[str, Any], stats: dict[str, Any], settings: dict) -> None:
        self.values_by_name, self.stats, self.settings = values, stats, settings
        self._origin: Any = None  # the sampler at the end of the run, for `diagnose`
        self._pointwise: Any = None  # the log likelihood of each row, and how draws were thinned

    def __getstate__(self) -> dict[str, Any]:
        """All but the sampler, which has compiled code and the data."""
        return {**vars(self), "_origin": None}

    def __getitem__(self, name: str) -> Any:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name} {x.shape}" for name, x in zip(tree.names(dict(self)), tree.leaves(dict(self)))
        )
        return (
            f"Draws({shapes or 'none'}; {self.settings['sampler']}, seed {self.settings['seed']})"
        )

    def summary(self, names: Sequence[str] | None = None) -> Summary:
        """Summarise every quantity: mean, standard deviation, quantiles, effective sample size.

        The draws are read a few quantities at a time, from memory or from files, which takes little
        memory beside them.

        Parameters
        ----------
        names : list of str, optional
            What to summarise: parameters and test functions (``"beta"``), parts of nested
            parameters (``"layer"``, ``"layer/weights"``), or single numbers (``"beta[2]"``,
            ``"A[0, 3]"``). All by default.

        Returns
        -------
        Summary
            A dict of columns, which prints as a table: `mean`, `sd`, and the quantiles `5%`, `50%`
            and `95%`; `ess`, the effective sample size: how many independent draws would give the
            mean with the same error, at most N log₁₀ N for N draws; `mcse`, the Monte Carlo
            standard error of the mean; with several chains `r_hat`, the split R̂, which is below
            1.01 if they agree. A quantity that does not vary has NaN in the last three. Of more
            than 60 quantities, the first and the last five are printed. The list `names` has the
            names of the rows, and the method `to_frame()` returns a data frame of pandas.

        Examples
        --------
        >>> import numpy as np
        >>> from sgmcmc import Draws
        >>> x = np.random.default_rng(1).normal(5, 2, (4, 1000))  # 4 chains of 1000 draws
        >>> summary = Draws({"x": x}, {}, {"n_chains": 4}).summary()
        >>> summary  # doctest: +NORMALIZE_WHITESPACE
           mean     sd     5%    50%    95%   ess     mcse  r_hat
        x  4.98  2.006  1.711  4.972  8.307  4025  0.03162  1.001
        >>> float(summary["mean"][0].round(2)), summary.names
        (4.98, ['x'])
        """
        return summarize(dict(self), self.settings.get("n_chains") is not None, names)

    def predict(
        self,
        fn: Callable[[dict, dict], Any],
        data: Mapping[str, Any],
        *,
        thin: int = 1,
        quantiles: Sequence[float] = (),
        keep: bool = False,
    ) -> Prediction:
        """Average a function of parameters and data over the draws, for each row of the data.

        It is evaluated in compiled code, for some draws and rows at a time, so that it takes little
        memory whatever the number of draws and rows; draws on disk are read as they are needed.

        Parameters
        ----------
        fn : function of (params, data)
            In TensorFlow operations; it returns an array whose first axis are the rows of `data`,
            such as the probabilities of classes.
        data : dict of arrays
            The rows to predict for.
        thin : int
            Take every `thin`-th draw.
        quantiles : list of float
            Shares such as (0.05, 0.95), for which quantiles over draws are wanted.
        keep : bool
            Keep all values, (draws, rows, ...).

        Returns
        -------
        Prediction
            With `mean`, `sd`, `quantiles` and `values`; `score(labels)` compares probabilities with
            the classes that were seen.

        Examples
        --------
        >>> import numpy as np, sgmcmc, tensorflow as tf
        >>> draws = sgmcmc.Draws({"slope": np.linspace(0.5, 1.5, 101)}, {}, {"n_chains": None})
        >>> data = {"x": np.arange(-2.0, 3)}
        >>> predicted = draws.predict(
        ...     lambda params, data: tf.sigmoid(params["slope"] * data["x"]), data
        ... )
        >>> predicted.mean.round(2)
        array([0.13, 0.27, 0.5 , 0.73, 0.87])
        >>> predicted.score([0, 0, 0, 1, 1])["accuracy"]
        1.0
        """
        return predicted(self, fn, data, thin, quantiles, keep)

    def log_likelihood(
        self, fn: Callable[[dict, dict], Any], data: Mapping[str, Any], *, thin: int = 1
    ) -> np.ndarray:
        """Compute the log likelihood of each row for each draw, for `arviz.loo` and `compare`.

        It is remembered, so that `to_arviz` puts it into a group `log_likelihood`; with `thin`, all
        groups then have every `thin`-th draw.

        Parameters
        ----------
        fn : function of (params, data)
            The log likelihood of each row, of shape (rows,): not their sum.
        data : dict of arrays
            The rows.
        thin : int
            Take every `thin`-th draw.

        Returns
        -------
        array (chains, draws, rows)

        Examples
        --------
        >>> import numpy as np, sgmcmc, tensorflow as tf
        >>> draws = sgmcmc.Draws({"mean": np.linspace(-1, 1, 50)}, {}, {"n_chains": None})
        >>> draws.log_likelihood(
        ...     lambda params, data: -((data["x"] - params["mean"]) ** 2) / 2, {"x": np.arange(3.0)}
        ... ).shape
        (1, 50, 3)
        """
        self._pointwise = pointwise(self, fn, data, thin), thin
        return self._pointwise[0]

    def save(self, path: str | Path) -> None:
        """Write the draws to a new folder, from which `load_draws`, xarray and ArviZ read them.

        Parameters
        ----------
        path : path
            A new or empty folder, such as "draws.zarr".

        Examples
        --------
        >>> import numpy as np, sgmcmc, tempfile
        >>> draws = sgmcmc.Draws({"x": np.arange(4.0)}, {}, {"n_chains": None, "sampler": "sgld"})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     draws.save(folder + "/draws.zarr")
        ...     print(sgmcmc.load_draws(folder + "/draws.zarr")["x"][:])
        [0. 1. 2. 3.]
        """
        from .store.writing import save_draws

        save_draws(self, path)

    @staticmethod
    def concatenate(parts: Sequence[Draws], axis: str = "draws") -> Draws:
        """Join the draws of runs of one model: one run after the other, or as several chains.

        Parameters
        ----------
        parts : list of Draws
            Runs with the same parameters, test functions and shapes.
        axis : {"draws", "chains"}
            Whether a run is a continuation of the one before, or a chain beside it.

        Returns
        -------
        Draws
            In memory, with the settings of the first run. Its `seed` is a list of all.

        Examples
        --------
        >>> import numpy as np
        >>> from sgmcmc import Draws
        >>> one, two = (
        ...     Draws({"x": np.arange(4.0) + i}, {}, {"n_chains": None, "seed": i}) for i in (0, 1)
        ... )
        >>> Draws.concatenate([one, two])["x"].shape
        (8,)
        >>> Draws.concatenate([one, two], "chains")["x"].shape
        (2, 4)
        """
        from .joining import concatenated

        return concatenated(parts, axis)

    def to_arviz(
        self,
        coords: Mapping[str, Sequence] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
    ) -> Any:
        """Convert the draws for ArviZ, which has plots, summaries and netCDF files.

        Parameters and test functions are in the group `posterior`. The group `sample_stats` has
        what `stats` has, with the log posterior under ArviZ's name `lp`. The names of nested
        parameters are joined by dots. It is an error if two quantities then have the same name, or
        if one has the name of a dimension. Needs ArviZ: `pip install 'sgmcmc[plot]'`.

        Parameters
        ----------
        coords : dict of sequences, optional
            The labels along each named dimension.
        dims : dict of lists of str, optional
            The names of the dimensions of each quantity, without those of chains and draws.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            The first with ArviZ up to 0.23, the second from 1.0 on.

        Examples
        --------
        >>> import numpy as np
        >>> from sgmcmc import Draws
        >>> beta = np.random.default_rng(1).normal(size=(4, 1000, 2))
        >>> draws = Draws({"beta": beta}, {}, {"n_chains": 4})
        >>> data = draws.to_arviz(coords={"feature": ["age", "dose"]}, dims={"beta": ["feature"]})
        >>> data.posterior["beta"].dims
        ('chain', 'draw', 'feature')
        """
        try:
            import arviz
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install 'sgmcmc[plot]'") from error
        chained = self.settings.get("n_chains") is not None
        posterior, stats = (
            {name: np.asarray(x) if chained else np.asarray(x)[None] for name, x in found.items()}
            for found in (by_dotted_name(dict(self), {}), by_dotted_name(self.stats, RENAMED))
        )
        for name in dims or {}:
            if name not in posterior:
                raise ValueError(
                    f"dims names {name!r}, which is not among the draws"
                    f"{checks.nearest(name, posterior)}"
                )
            if isinstance(dims[name], str):
                raise TypeError(f"dims[{name!r}] must be a list of names, not {dims[name]!r}")
            if len(dims[name]) != posterior[name].ndim - 2:
                raise ValueError(
                    f"dims[{name!r}] has {len(dims[name])} names, but one draw of {name!r} has "
                    f"shape {posterior[name].shape[2:]}"
                )
        groups: dict[str, Any] = {"posterior": posterior}
        if stats:
            groups["sample_stats"] = stats
        if self._pointwise is not None:
            found, thin = self._pointwise
            groups = {
                group: {k: x[:, thin - 1 :: thin] for k, x in arrays.items()}
                for group, arrays in groups.items()
            }
            groups["log_likelihood"] = {"rows": found}
        attrs = {
            "inference_library": "sgmcmc",
            "settings": json.dumps(self.settings, default=str),
        }
        if int(arviz.__version__.split(".")[0]) < 1:
            data = arviz.from_dict(**groups, coords=coords, dims=dims, attrs=attrs)
        else:
            data = arviz.from_dict(groups, coords=coords, dims=dims, attrs={"/": attrs})
        for group, arrays in groups.items():
            kept = getattr(data, group).data_vars if hasattr(data, group) else ()
            for name in arrays:
                if name not in kept:  # ArviZ has put a coordinate of this name in its place
                    raise ValueError(
                        f"{name!r} is the name of a dimension, chains and draws among them, and "
                        f"ArviZ would leave out the draws: {RENAME}"
                    )
        return data


def by_dotted_name(nest: dict[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return the arrays of a nest by the names that they have in ArviZ."""
    paths: dict[str, str] = {}
    found: dict[str, Any] = {}
    for path, x in zip(tree.names(nest), tree.leaves(nest)):
        name = renamed.get(path, path.replace("/", "."))
        if name in found:
            raise ValueError(
                f"{paths[name]!r} and {path!r} would both be {name!r} in ArviZ, where dots "
                f"join the names of nests: {RENAME}"
            )
        paths[name], found[name] = path, x
    return found
