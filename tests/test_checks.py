"""Bad input gets a clear error at once; unusual but valid input is accepted."""

import re
import time
import traceback

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

N = 20
X = np.linspace(-1, 1, 3 * N, dtype=np.float32).reshape(N, 3)
y = np.arange(N, dtype=np.float32)
PARAMS = {"beta": np.zeros(3), "net": {"w": np.ones((2, 2)), "b": 0.5}}
STARTS = tf.nest.map_structure(lambda x: np.stack([x, x]), PARAMS)
OWNER = dict.fromkeys(["L", "alpha", "resample_momentum"], "sghmc")
OWNER |= dict.fromkeys(["mode", "opt_stepsize", "n_iters_opt"], "sgldcv") | {"a": "sgnht"}
OWNER |= {"thermostat_rate": "sgnht", "search_mode": "sgldcv"}


def log_lik(params, data):
    eta = tf.linalg.matvec(tf.cast(data["X"], params["beta"].dtype), params["beta"])
    return -tf.reduce_sum((tf.cast(data["y"], eta.dtype) - eta - params["net"]["b"]) ** 2)


def total(params):
    return sum(tf.reduce_sum(x) for x in tf.nest.flatten(params))


def log_prior(params):
    return -(total(params) ** 2)


def call(overrides):
    """The sampler that knows these arguments, with a valid value for all others; ... leaves out."""
    sampler = next((OWNER[k] for k in overrides if k in OWNER), "sgld")
    arguments = {
        "log_lik": log_lik,
        "dataset": {"X": X, "y": y},
        "params": PARAMS,
        "stepsize": 1e-3,
        "log_prior": log_prior,
        "minibatch_size": 5,
        "n_iters": 4,
        "verbose": False,
    } | overrides
    return getattr(sgmcmc, sampler)(**{k: v for k, v in arguments.items() if v is not ...})


def data(**arrays):
    return {"dataset": {"X": X, "y": y, **arrays}}


def params(**values):
    return {"params": PARAMS | values}


def starts(n_chains=2, **values):
    return {"starts": STARTS | values, "n_chains": n_chains}


def mode(**values):
    return {"mode": PARAMS | values}


def steps(**values):
    return {"stepsize": values}


def likelihood(of_params):
    return {"log_lik": lambda params, _: of_params(params), "log_prior": None}


def prior(of_params):
    return {"log_prior": of_params}


def put(x, index, value):
    x = np.array(x, float)
    x[index] = value
    return x


def mistaken(*_):
    return undefined_name  # noqa: F821


def branching(params):
    return total(params) if params["beta"][0] >= 0 else -total(params)


def each(name, wanted, values):
    return {f"{name} must be {wanted}…, not {v!r}": {name: v} for v in values}


def either(of_params):
    """A mistake in a log density, made in the likelihood and in the prior."""
    return {
        f"{name} {message}": of(fn)
        for message, fn in of_params.items()
        for name, of in (("log_lik", likelihood), ("log_prior", prior))
    }


GRAPH = "works on values but not in compiled code: {}…must be made of TensorFlow operations"
ROWS = "a whole number of rows from 1 to N = 20, a proportion below 1, 'all' or 'auto'"
WHOLE, FROM_0 = "a positive whole number", "a whole number, 0 or more"
POSITIVE, SHARE = "a finite number above 0", "a finite number above 0 and at most 1"

BAD_VALUES = {  # what the error says, … for some words of it: what is passed
    "dataset must have equally many rows, not {'X': 20, 'y': 19}": data(y=y[1:]),
    "dataset['X'] must not be empty, but its shape is (0, 3)": data(X=X[:0]),
    "dataset['X'] must not be empty, but its shape is (20, 0)": data(X=X[:, :0]),
    "dataset is an empty dict: it must hold arrays, such as {'X': X, 'y': y}": {"dataset": {}},
    "dataset['y'] must be an array, not lists of unequal lengths": data(y=[[1, 2], [3]]),
    "dataset['y'] must not have masked values: fill them": data(y=np.ma.array(y, mask=y > 3)),
    "dataset['y'] must be an array whose first axis is the rows, not 3.0": data(y=3.0),
    "dataset['X'] has nan in row 7: every value must be finite": data(X=put(X, (7, 1), np.nan)),
    "dataset['y'] has -inf in row 4: every value must be finite": data(y=put(y, [9, 4], -np.inf)),
    "dataset['y'] has 1e+300 in row 4…pass dtype='float64'": data(y=put(y, 4, 1e300)),
    "params is an empty dict: it must hold…such as {'beta': np.zeros(3)}": {"params": {}},
    "params['net'] is an empty dict: it must hold starting values": params(net={}),
    "params['beta'] must not be empty, but its shape is (0,)": params(beta=[]),
    "params['beta'] has nan in row 1: every value must be finite": params(beta=[0, np.nan, 0]),
    "params['net']['b'] is inf: every value must be finite": params(net={"w": X, "b": np.inf}),
    "starts needs n_chains": {"starts": STARTS},
    "starts['beta'] must have shape (2, 3), not (3,)": {"starts": PARAMS, "n_chains": 2},
    "starts['beta'] must have shape (3, 3), not (2, 3)": starts(n_chains=3),
    "starts lacks the parameter 'net'…['beta', 'net']": {"starts": {"beta": X[:2]}, "n_chains": 2},
    "starts names 'g', which is no parameter…['beta', 'net']": starts(g=1),
    "starts['beta'] has nan in row 1": starts(beta=put(X[:2], (1, 0), np.nan)),
    "mode lacks the parameter 'net'…['beta', 'net']": {"mode": {"beta": X[0]}},
    "mode names 'betta', which is no parameter (did you mean 'beta'?)": mode(betta=X[0]),
    "mode['beta'] must have shape (3,), not (20,)": mode(beta=y),
    "minibatch_size = 0.01 of N = 20 rows rounds to 0 rows…larger": {"minibatch_size": 0.01},
    "minibatch_size = 1.0 is ambiguous…1 for one row, or 20 for all": {"minibatch_size": 1.0},
    **each("minibatch_size", ROWS, [0, -1, 1.5, 21, np.nan, [5]]),
    **each("stepsize", POSITIVE, [0, -0.1, np.nan, np.inf, [0.1, 0.1]]),
    "stepsize must be…dict of them by parameter, not ndarray of shape (3,)": {"stepsize": X[0]},
    "stepsize lacks the parameter 'net'…all of ['beta', 'net']": steps(beta=1),
    "stepsize names 'betta'…(did you mean 'beta'?)": steps(betta=1, net=1),
    "stepsize['net'] lacks the parameter 'b'…['b', 'w']": steps(beta=1, net={"w": 1}),
    "stepsize['net']['w'] must be…above 0, not -1": steps(beta=1, net={"w": -1, "b": 1}),
    "stepsize(0) must be a finite number above 0, not 0.0": {"stepsize": lambda k: 0.0},
    "stepsize['beta'](0) must be a finite…not nan": steps(beta=lambda k: np.nan, net=1),
    "stepsize(0) raised ZeroDivisionError: division by zero": {"stepsize": lambda k: 1 / k},
    **each("n_iters", WHOLE, [0, -1]),
    **each("thin", WHOLE, [0, -1]),
    **each("thin", "at most n_iters = 4", [5]),
    **each("burn_in", FROM_0, [-1]),
    **each("n_chains", WHOLE, [0, -2]),
    **each("L", WHOLE, [0, -1]),
    **each("alpha", SHARE, [0, 1.1, -1, np.nan, [0.1, 0.2]]),
    "alpha['beta'] must be…at most 1, not 2": {"alpha": {"beta": 2, "net": 1}},
    **each("a", "a finite number of at least 0", [-1, np.nan]),
    **each("thermostat_rate", SHARE, [0, -1, 2, np.nan]),
    "search_mode=False needs opt_stepsize": {"search_mode": False},
    **each("opt_stepsize", POSITIVE, [0, -1, np.nan]),
    **each("n_iters_opt", WHOLE, [0]),
    **each("seed", FROM_0, [-1]),
    **each("seed", "below 2**64", [2**64]),
    **each("dtype", "'float32' or 'float64'", ["float16", "flaot32", np.int64, None]),
    "keep names 'betta', which is no…(did you mean 'beta'?)": {"keep": ["betta"]},
    "keep names ['beta'], which is no parameter": {"keep": [["beta"]]},
    "track names 'beta', which is a parameter: choose another": {"track": {"beta": total}},
    "track['t'] raised NameError: name 'undefined_name' is not": {"track": {"t": mistaken}},
    "track['t'] works on values but not in compiled code": {"track": {"t": branching}},
    "out must be a new or an empty folder, but 'tests' is not empty": {"out": "tests"},
    "out must be a new or an empty folder, but…is a file": {"out": __file__},
    "out must be a folder that can be made, but…is a file": {"out": f"{__file__}/new/draws"},
    "out must be a folder that can be made: ": {"out": "x" * 1000},
    "log_lik raised TypeError: <lambda>() takes 0 positional": {"log_lik": lambda: 1.0},
    "log_lik raised InvalidArgumentError: Matrix size-incompatible": {
        "log_lik": lambda params, data: tf.linalg.matvec(data["X"], tf.zeros(4))
    },
    "log_lik raised NameError: name 'undefined_name'": likelihood(tf.function(mistaken)),
    "log_lik raised…mixes float32 constants with float64…, or pass dtype='float32'": {
        **likelihood(lambda params: total(params) * tf.constant(2.0)),
        "dtype": "float64",
    },
    "log_lik does not depend on the parameter 'beta'…use it, or leave it out": likelihood(
        lambda params: tf.constant(1.0)
    ),
    "log_lik does not depend on the parameter 'net/w' (or not differentiably)": likelihood(
        lambda params: params["beta"][0] + params["net"]["b"] + tf.round(params["net"]["w"][0, 0])
    ),
    "neither log_lik nor log_prior depends on the parameter 'net/w'": {
        "log_lik": lambda params, data: params["beta"][0],
        "log_prior": lambda params: params["net"]["b"],
    },
    **either(
        {
            "raised NameError: name 'undefined_name' is not defined": mistaken,
            "raised KeyError: 'betta'": lambda params: params["betta"],
            "must return one number, not None: is a `return` missing?": lambda params: None,
            "must return one number, not…shape (3,): sum it": lambda params: params["beta"],
            "must return one number, not…shape (1,): sum it": lambda params: params["beta"][:1],
            "is nan at the start: choose params": lambda params: total(params) * np.nan,
            GRAPH.format("AttributeError: "): lambda params: params["beta"].numpy()[0],
            GRAPH.format("…to a numpy array"): lambda params: np.sum(params["beta"]),
            GRAPH.format("…as a Python `bool`"): branching,
            "raised…mixes float64 constants with float32 parameters…, or pass dtype='float64'": (
                lambda params: total(params) * tf.constant(2.0, tf.float64)
            ),
        }
    ),
    "the gradient of log_prior by 'beta' is not finite at the start": prior(
        lambda params: tf.norm(params["beta"])
    ),
}
REAL = "must hold real numbers or booleans, not"
BAD_TYPES = {
    "dataset must be a dict of arrays…, not ndarray of shape (20, 3)": {"dataset": X},
    "dataset must be a dict of arrays…, not a list": {"dataset": [X, y]},
    "dataset must be a dict of arrays…, not None": {"dataset": None},
    "dataset must have strings as names, not 0": {"dataset": {0: X}},
    f"dataset['y'] {REAL} object values": data(y=np.array([{}] * N)),
    f"dataset['y'] {REAL} text: code it as integers": data(y=["a"] * N),
    f"dataset['y'] {REAL} bytes: code them as integers": data(y=[b"a"] * N),
    f"dataset['y'] {REAL} complex64 values": data(y=y * np.complex64(1j)),
    f"dataset['y'] {REAL} datetime64[s] values": data(y=y.astype("M8[s]")),
    f"dataset['y'] {REAL} a dict": data(y={"a": y}),
    "params must be a dict of starting values…, not ndarray of shape (3,)": {"params": X[0]},
    f"params['beta'] {REAL} text": params(beta="zeros"),
    f"params['beta'] {REAL} None": params(beta=None),
    "starts must be a dict in the form of params, not a list": {
        "starts": [PARAMS, PARAMS],
        "n_chains": 2,
    },
    "mode must be a dict in the form of params, not ndarray of shape (3,)": {"mode": X[0]},
    "mode['net'] must be a dict in the form of params, not ndarray of shape (20, 3)": mode(net=X),
    **each("minibatch_size", ROWS, ["every", None, True, np.True_]),
    **each("stepsize", f"{POSITIVE} or a schedule or a dict", ["0.1", True]),
    "stepsize['beta'] must be…not {'a': 1}": steps(beta={"a": 1}, net=1),
    "stepsize(0) must be a finite number above 0, not None": {"stepsize": lambda k: None},
    **each("n_iters", WHOLE, [2.5, 4.0, "3", None, True, np.nan, [3]]),
    **each("thin", WHOLE, [1.5, True]),
    **each("burn_in", FROM_0, [2.5, None, False]),
    **each("n_chains", WHOLE, [2.5, "2", True]),
    **each("L", WHOLE, [2.5, None, True]),
    **each("alpha", f"{SHARE} or a dict of them by parameter", ["a", True]),
    **each("a", "a finite number of at least 0", ["0", None]),
    **each("thermostat_rate", f"{SHARE} or 'stepsize'", ["step", None]),
    **each("search_mode", "True or False", [1]),
    **each("opt_stepsize", POSITIVE, ["a", True]),
    **each("n_iters_opt", WHOLE, [2.5, None]),
    **each("seed", FROM_0, [1.5, "a", True, [1]]),
    **each("jit", "True or False", [1, None]),
    **each("verbose", "True, False or a function", ["no"]),
    **each("shared_minibatches", "True or False", [1]),
    **each("resample_momentum", "True or False", [0]),
    "sgld() has no argument 'stepsizes' (did you mean 'stepsize'?)": {"stepsizes": 1},
    "sgld() missing a required argument: 'params'": {"params": ...},
    **each("keep", "a list of names of parameters", ["beta", 3, {"beta": 1}]),
    "track must be a dict of test functions…, not <function total": {"track": total},
    "track['t'] must be a function of params, not 3": {"track": {"t": 3}},
    "track['t'] must return a number or an array, not None": {"track": {"t": lambda params: None}},
    "track['t'] must return a number or an array, not 'a'": {"track": {"t": lambda params: "a"}},
    "out must be the path of a folder, not 3": {"out": 3},
    "log_lik must be a function of (params, data), not None": {"log_lik": None},
    "log_prior must be a function of params, not 3": {"log_prior": 3},
    **either(
        {
            "must return one number, not {}": lambda params: {},
            "must return a floating-point number, not bool": lambda params: total(params) > 0,
            "must return a floating-point number, not int32": lambda params: 3,
            "must return a floating-point number, not string": lambda params: "a",
        }
    ),
}


@pytest.fixture
def no_compiling(monkeypatch):
    for entry in ("programs.compiled", "model.Model.on_all"):
        monkeypatch.setattr(f"sgmcmc.{entry}", lambda *_: pytest.fail("compiled"))


@pytest.fixture(scope="module")
def warm():
    with pytest.raises(ValueError):
        call(likelihood(branching))


@pytest.mark.parametrize(
    ("error", "message", "passed"),
    [
        pytest.param(error, *row, id=row[0])
        for error, table in ((ValueError, BAD_VALUES), (TypeError, BAD_TYPES))
        for row in table.items()
    ],
)
def test_bad_input_gets_a_clear_error_at_once(
    error, message, passed, no_compiling, warm, monkeypatch, pytestconfig
):
    monkeypatch.chdir(pytestconfig.rootpath)
    wanted = ".*".join(re.escape(part) for part in message.split("…"))
    began = time.perf_counter()
    with pytest.raises(error, match=f"(?s)^(the arrays of )?{wanted}") as caught:
        call(passed)
    assert time.perf_counter() - began < 1
    assert caught.type is error
    assert not re.search(r"\n|\{\{|\[Op:|in user code|\.\.$", str(caught.value))


@pytest.mark.parametrize("passed", [{}, {"n_iters_opt": 1}])
def test_valid_input_goes_on_to_be_compiled(passed, no_compiling):
    with pytest.raises(pytest.fail.Exception, match="compiled"):
        call(passed)


@pytest.mark.parametrize("of", [likelihood, prior])
@pytest.mark.parametrize("mistake", [mistaken, branching])
def test_the_users_own_traceback_is_shown(of, mistake, no_compiling):
    with pytest.raises(ValueError) as caught:
        call(of(mistake))
    cause = caught.value.__cause__
    assert isinstance(cause, NameError if mistake is mistaken else TypeError)
    first = [f.name for f in traceback.extract_tb(cause.__traceback__)][:3]
    assert mistake.__name__ in first, "other frames come before the user's"
    assert f"in {mistake.__name__}\n" in "".join(traceback.format_exception(caught.value))


def test_a_bad_row_of_a_memmap_is_found_when_it_is_read(tmp_path):
    rows = np.memmap(tmp_path / "X", "f8", "w+", shape=X.shape)
    rows[:] = put(X, (15, 2), np.nan)
    sampler = sgmcmc.sgld_setup(log_lik, {"X": rows, "y": y}, PARAMS, 1e-3, log_prior, 5)
    with pytest.raises(ValueError, match=r"^dataset\['X'\] has nan in row 15: every") as caught:
        sgmcmc.run(sampler, 120, verbose=False)  # at least 15 of the 20 rows in each 3
    assert isinstance(caught.value.draws, sgmcmc.Draws)


READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False
UNUSUAL = {
    "list": (X.tolist(), tf.float32),
    "tensor": (tf.constant(X), tf.float32),
    "variable": (tf.Variable(X), tf.float32),
    "float16": (X.astype("f2"), tf.float32),
    "float64": (X.astype("f8"), tf.float32),
    "big-endian": (X.astype(">f4"), tf.float32),
    "big-endian integers": ((9 * X).astype(">i4"), tf.int32),
    "int8": ((9 * X).astype("i1"), tf.int8),
    "uint16": ((9 + 9 * X).astype("u2"), tf.uint16),
    "bool": (X > 0, tf.bool),
    "read-only": (READ_ONLY, tf.float32),
    "Fortran": (np.asfortranarray(X), tf.float32),
    "strided": (np.repeat(X, 2, axis=0)[::2], tf.float32),
    "reversed": (X[::-1], tf.float32),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_lik_sees_data_of_any_real_type_unchanged(kind, dtype):
    given, wanted = UNUSUAL[kind]
    seen = []

    def spy(params, data):
        seen.append(data["X"])
        return log_lik(params, data)

    call({**data(X=given), "log_lik": spy, "dtype": dtype, "minibatch_size": N, "jit": False})
    assert {x.dtype for x in seen} == {tf.as_dtype(dtype) if wanted.is_floating else wanted}
    np.testing.assert_array_equal(seen[0], np.asarray(given).astype(seen[0].dtype.as_numpy_dtype))


VALID = {
    "whole minibatch": {"minibatch_size": N},
    "one row": {"minibatch_size": 1},
    "proportion": {"minibatch_size": np.float32(0.25)},
    "whole float": {"minibatch_size": 5.0},
    "NumPy scalars": {
        "stepsize": np.float32(1e-3),
        "minibatch_size": np.int16(5),
        "n_iters": np.int64(4),
        "burn_in": np.uint8(0),
        "thin": np.int32(1),
        "seed": np.uint64(2**63),
        "jit": np.bool_(False),
    },
    "0-d": {"stepsize": np.array(1e-3)},
    "tensors": {"stepsize": tf.constant(1e-3), **data(X=tf.constant(X), y=tf.constant(y))},
    "schedules": {
        "stepsize": {"beta": lambda k: 1e-3, "net": {"w": 1e-3, "b": sgmcmc.decay(1e-3, 1, 1)}}
    },
    "integer start": params(beta=[0, 0, 0]),
    "integer mode": mode(beta=[0, 0, 0]),
    "sghmc": {"L": np.int64(2), "alpha": {"beta": 1, "net": np.float32(0.1)}},
    "type": {"dtype": np.float64},
    "keep": {"keep": ("beta", "beta")},
    "keep nothing": {"keep": []},
    "data of all types": data(X=(9 * X).astype(">i2"), y=y > 3),
}


@pytest.mark.parametrize("case", VALID)
def test_valid_input_runs(case):
    draws = call({"jit": False, **VALID[case]})
    assert draws.stats["log_posterior"].shape == (4,)
    assert np.isfinite(draws.stats["log_posterior"]).all()


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_small_integer_types_do_not_overflow(kind):
    draws = call({"jit": False, "n_iters": kind(120), "burn_in": kind(120), "thin": kind(2)})
    assert draws["beta"].shape == (60, 3)
    assert type(draws.settings["n_iters"]) is int
