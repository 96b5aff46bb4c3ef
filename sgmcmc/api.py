"""The samplers: each a dynamics and an estimator of the gradient."""

from .counts import Counted
from .dynamics.mixed import Mixed
from .dynamics.scir import SCIR
from .dynamics.scircv import SCIRCV
from .dynamics.sghmc import SGHMC
from .dynamics.sgld import SGLD
from .dynamics.sgnht import SGNHT
from .dynamics.sgrld import SGRLD
from .estimators import ControlVariate, Gradient
from .signatures import public

sgld, sgld_setup = public("sgld", SGLD, Gradient)
sghmc, sghmc_setup = public("sghmc", SGHMC, Gradient)
sgnht, sgnht_setup = public("sgnht", SGNHT, Gradient)
sgldcv, sgldcv_setup = public("sgldcv", SGLD, ControlVariate)
sghmccv, sghmccv_setup = public("sghmccv", SGHMC, ControlVariate)
sgnhtcv, sgnhtcv_setup = public("sgnhtcv", SGNHT, ControlVariate)
scir, scir_setup = public("scir", SCIR, Gradient)
scircv, scircv_setup = public("scircv", SCIRCV, Counted)
sgrld, sgrld_setup = public("sgrld", SGRLD, Gradient)
mixed, mixed_setup = public("mixed", Mixed, Gradient)

# doctest looks only at functions written in a module itself
__test__ = {
    f.__name__: f for f in list(globals().values()) if getattr(f, "__module__", "") == __name__
}
