"""The public samplers: one row for each, which combines a dynamics and a gradient estimator."""

from .describe import public
from .dynamics.baoab import BAOAB
from .dynamics.gmc import GMC
from .dynamics.gsgnht import GSGNHT
from .dynamics.mixed import Mixed
from .dynamics.psgld import PSGLD
from .dynamics.scir import SCIR
from .dynamics.scircv import SCIRCV
from .dynamics.sgbarker import SGBarker
from .dynamics.sggmc import SGGMC
from .dynamics.sghmc import SGHMC
from .dynamics.sgld import SGLD
from .dynamics.sgnht import SGNHT
from .dynamics.sgrld import SGRLD
from .estimators.control_variate import ControlVariate
from .estimators.counts import Counted
from .estimators.gradient import Gradient

NO_USE = (
    "log_prior",
    "constrain",
    "temperature",
    "precondition",
    "bias",
    "rescale",
)  # of probabilities
FLAT = "precondition", "bias", "rescale"  # of no use on a manifold
ALL_ROWS = {
    "minibatch_size": "all",
    "minibatches": "reshuffled",
    "shared_minibatches": True,
}
OF_SGHMC, OF_SGNHT = "stepsize=1e-7, alpha=0.1", "stepsize=1e-7, a=0.1"
OF_SCIR, OF_SGRLD = "stepsize=0.5, alpha=0.1", "stepsize=1e-4, alpha=0.1"
ON_SPHERE = "stepsize=0.005, manifold=sgmcmc.Sphere()"
OF_MIXED = """stepsize={"omega": 0.5, "mu": 1e-4},
...     blocks={"omega": sgmcmc.SCIR(alpha=0.1), "mu": sgmcmc.SGLD()}"""
ANY = """Sampler with any dynamics, of this package or your own.

A dynamics of your own has everything that those of the package have: compiled steps, chains,
constraints, gradient estimators, test functions and draws on disk. `Dynamics` says how to write
one.
"""

sgld, sgld_setup = public("sgld", SGLD)
sghmc, sghmc_setup = public("sghmc", SGHMC, call=OF_SGHMC)
sgnht, sgnht_setup = public("sgnht", SGNHT, call=OF_SGNHT)
sgldcv, sgldcv_setup = public("sgldcv", SGLD, ControlVariate)
sghmccv, sghmccv_setup = public("sghmccv", SGHMC, ControlVariate, call=OF_SGHMC)
sgnhtcv, sgnhtcv_setup = public("sgnhtcv", SGNHT, ControlVariate, call=OF_SGNHT)
psgld, psgld_setup = public("psgld", PSGLD, call="stepsize=1e-7")
sgbarker, sgbarker_setup = public("sgbarker", SGBarker, without=("temperature",))
baoab, baoab_setup = public("baoab", BAOAB, call=OF_SGHMC)
sggmc, sggmc_setup = public("sggmc", SGGMC, None, FLAT, ON_SPHERE, "directions")
gsgnht, gsgnht_setup = public("gsgnht", GSGNHT, None, FLAT, ON_SPHERE, "directions")
gmc, gmc_setup = public(
    "gmc", GMC, Gradient, (*FLAT, "temperature"), ON_SPHERE, "directions", fixed=ALL_ROWS
)
scir, scir_setup = public("scir", SCIR, Gradient, NO_USE, OF_SCIR, "categories")
scircv, scircv_setup = public("scircv", SCIRCV, Counted, NO_USE, OF_SCIR, "categories")
sgrld, sgrld_setup = public("sgrld", SGRLD, Gradient, NO_USE, OF_SGRLD, "categories")
mixed, mixed_setup = public("mixed", Mixed, None, ("temperature",), OF_MIXED, "mixed")
sample, sample_setup = public("sample", None, text=ANY)

# doctest only finds functions that are defined in the module itself
__test__ = {
    f.__name__: f for f in list(globals().values()) if getattr(f, "__module__", "") == __name__
}
