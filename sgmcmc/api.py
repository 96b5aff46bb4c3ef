"""The samplers: each a dynamics and an estimator of the gradient."""

from .dynamics.sghmc import SGHMC
from .dynamics.sgld import SGLD
from .dynamics.sgnht import SGNHT
from .estimators import ControlVariate, Gradient
from .signatures import public

sgld, sgld_setup = public("sgld", SGLD, Gradient)
sghmc, sghmc_setup = public("sghmc", SGHMC, Gradient)
sgnht, sgnht_setup = public("sgnht", SGNHT, Gradient)
sgldcv, sgldcv_setup = public("sgldcv", SGLD, ControlVariate)
sghmccv, sghmccv_setup = public("sghmccv", SGHMC, ControlVariate)
sgnhtcv, sgnhtcv_setup = public("sgnhtcv", SGNHT, ControlVariate)

# doctest looks only at functions written in a module itself
__test__ = {
    f.__name__: f for f in list(globals().values()) if getattr(f, "__module__", "") == __name__
}
