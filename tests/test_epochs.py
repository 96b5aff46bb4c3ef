"""Minibatches that are taken in turn from a shuffled data set.

The stationary variance on a Gaussian is exact, as in test_stationary.py: z-tests with the false
alarms and the power of `ztest`, which find relative errors of 3 %; independent minibatches are the
negative control.
"""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import checks, minibatches, resident, tree
from sgmcmc.dynamics import Noise
from sgmcmc.feeder import Feeder, Wanted
from sgmcmc.minibatches import Independent, InWindows, Reshuffled, minibatches_of
from sgmcmc.source import Source
from sgmcmc.tuning.epochs import Epoch, in_epochs
from sgmcmc.tuning.laws import hamiltonian, langevin, second_order

from . import gaussian, slow
from .gaussian import Case, mean_squares, variance_in_epochs
from .test_minibatch import numbered, on_disk
from .ztest import assert_mean, assert_rejected

N, n = 60, 5
CASES = {
    "noisy": Case(1, 0.05, 10, 0.2, size=8),
    "narrow": Case(4, 0.02, 12, 0.4, size=8),
    "large_step": Case(1, 0.3, 3, 0.1, size=8),
}
SAMPLERS = ["sgld", "sghmc", slow("baoab")]


@pytest.fixture
def one_order(monkeypatch):
    """The rows keep their order for the whole run, and with it minibatches their noise."""
    monkeypatch.setattr(minibatches, "EPOCHS", 3000)


def run(name, seed, N=N, L=1, **options):
    """Chains whose draws are of all positions in an epoch."""
    more = {} if name == "sgld" else {"alpha": {k: c.alpha for k, c in CASES.items()}}
    if name == "sghmc":
        more["L"] = L
    options = {"n_iters": 1500, "burn_in": 480, "minibatches": "reshuffled", **more, **options}
    return gaussian.run(getattr(sgmcmc, name), CASES, N=N, n=n, seed=seed, **options)


def compared(name, draws, seed, N=N, L=1):
    """The mean square of each chain, and what it is on average over the chains.

    All chains have the same minibatches, in turns of their own. So the variance of the noise is
    that of these minibatches, and if rows are left over, its mean is not 0.
    """
    rows = Reshuffled(N, n, seed, L).order(0)
    rng = np.random.default_rng(0)
    for k, case in CASES.items():
        x = rng.normal(size=(N, case.size))
        x = (x - x.mean(0)) / x.std(0, ddof=1) * case.sigma * np.sqrt(n * N / (N - n))
        noise = x[rows].mean(axis=1)
        shift = noise.mean(axis=0)
        sigma = np.sqrt(((noise - shift) ** 2).mean())
        exact = variance_in_epochs(name, case._replace(sigma=sigma), len(rows) * n, n, L)
        yield mean_squares(draws[k] - shift / case.lam), exact


class TestLaw:
    """Stationary variances."""

    @pytest.mark.parametrize("name", SAMPLERS)
    def test_variance(self, name, seed, one_order):
        for squares, exact in compared(name, run(name, seed), seed):
            assert_mean(squares, exact, detect=0.03)

    @pytest.mark.parametrize("name", SAMPLERS)
    def test_independent_minibatches_are_rejected(self, name, seed):
        draws = run(name, seed, minibatches="independent", n_iters=600)
        noisy, narrow, _ = compared(name, draws, seed)
        assert_rejected(*noisy)
        assert_rejected(*narrow)

    @pytest.mark.slow
    def test_inner_steps(self, seed, one_order):
        """Three of twelve minibatches an iteration."""
        draws = run("sghmc", seed, L=3)
        for squares, exact in compared("sghmc", draws, seed, L=3):
            assert_mean(squares, exact, detect=0.03)

    @pytest.mark.parametrize("is_kept", [False, True])
    def test_rows_that_are_left_over(self, is_kept, seed, monkeypatch):
        """40 of 640 rows: others in each epoch. The control leaves them out for 100 epochs.

        Chains share these rows, but not what they do to parameters with orthogonal data.
        """
        if is_kept:
            monkeypatch.setattr(minibatches, "LEFT_OVER", 1.0)
        N, n, case = 640, 50, Case(1, 0.05, 10)
        x = np.random.default_rng(0).normal(size=(N, 256))
        x = np.linalg.qr(x - x.mean(axis=0))[0] * np.sqrt(N - 1)
        x *= case.sigma * np.sqrt(n * N / (N - n))
        draws = sgmcmc.sgld(
            lambda params, data: -tf.reduce_sum((params["a"] - data["x"]) ** 2) / (2 * N),
            *({"x": x}, {"a": np.zeros(256)}, case.eps),
            minibatch_size=n,
            n_chains=4,
            n_iters=9600,
            burn_in=240,
            seed=seed,
            verbose=False,
        )
        squares = (draws["a"].astype(float) ** 2).mean(axis=(0, 1))
        exact = variance_in_epochs("sgld", case, N, n)
        if is_kept:
            assert_rejected(squares, exact)
        else:
            assert_mean(squares, exact, detect=0.03)

    def test_the_table_of_the_design(self):
        """Gaussian mean, 10,000 rows, minibatches of 100, step e/N: simulated by others."""
        epoch, noise = Epoch.of("reshuffled", 10_000, 100, 1), np.array([99.0])
        for e, simulated in ((0.004, 1.01), (0.02, 1.14), (0.04, 1.45), (0.2, 5.44)):
            found = langevin(np.array([e]), noise, epoch).inflation
            assert found == pytest.approx(simulated, rel=0.02)
        for alpha, simulated in ((0.2, 1.03), (0.05, 1.32)):
            a = np.array([alpha])
            found = hamiltonian(np.array([1e-3]), noise, a, a, 1, epoch).inflation
            assert found == pytest.approx(simulated, rel=0.02)

    @pytest.mark.parametrize("steps", [1, 3, 4])
    def test_laws_are_the_recursion(self, steps):
        """Step by step, by the oracle of the tests."""
        epoch = Epoch.of("reshuffled", N, n, 1)
        for case in CASES.values():
            eps, alpha = np.array([case.eps * case.lam]), np.array([case.alpha])
            s2 = np.array([case.sigma**2 / case.lam])
            for name, law in (
                ("sgld", langevin(eps, s2, epoch)),
                ("sghmc", hamiltonian(eps, s2, alpha, alpha, steps, epoch)),
                ("baoab", second_order(eps, s2, alpha, epoch)),
            ):
                each = steps if name == "sghmc" else 1
                exact = case.lam * variance_in_epochs(name, case, N, n, each)
                np.testing.assert_allclose(law.inflation, exact, 1e-8)

    def test_long_epochs_are_white_noise(self):
        A, heat, kick = np.array([[[0.9]]]), np.array([[[0.2]]]), np.array([[0.1]])
        found, _ = in_epochs(A, heat, kick, np.array([5.0]), 1, Epoch(10**6, -1e-6))
        assert found == pytest.approx((0.2 + 0.05) / (1 - 0.81), rel=1e-3)

    def test_a_chosen_step_is_longer(self):
        """With the noise of minibatches that is taken back, and it keeps the stated bias."""
        rng = np.random.default_rng(0)
        dataset = {"x": rng.normal(size=2000)}

        def log_lik(params, data):
            return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2

        found = {}
        for kind in ("reshuffled", "independent"):
            sampler = sgmcmc.sgld_setup(
                log_lik, dataset, {"mean": 0.0}, minibatch_size=20, minibatches=kind, seed=1,
                verbose=False,
            )  # fmt: skip
            found[kind] = sampler.settings["tuning"]
        assert found["reshuffled"]["inflation"][2] < 1.0501
        assert found["reshuffled"]["ess"][0] > 3 * found["independent"]["ess"][0]

    @pytest.mark.slow
    def test_counts(self, seed, one_order):
        """SCIR, whose mean is a linear recursion with the noise of counts."""
        z, h, a, m = np.arange(400) % 4, 0.05, 100.5, 20
        count = np.eye(4)[z][Reshuffled(400, 20, seed, 1).order(0)].sum(axis=1)
        noise = (m**2 * (count - 5) ** 2).mean()
        stay, kick = np.full((1, 1, 1), np.exp(-h)), np.full((1, 1), -np.expm1(-h))
        epoch = Epoch(m, -1 / (m - 1))
        added, _ = in_epochs(stay, np.zeros((1, 1, 1)), kick, np.array([noise]), 1, epoch)
        for kind in ("reshuffled", "independent"):
            draws = sgmcmc.scir(
                lambda params, data: tf.reduce_sum(
                    tf.math.log(tf.gather(params["rate"], data["z"]))
                ),
                *({"z": z}, {"rate": np.full(4, 100.0)}, h),
                minibatch_size=20,
                minibatches=kind,
                alpha=0.5,
                positive=["rate"],
                n_chains=256,
                n_iters=1600,
                burn_in=200,
                thin=2,
                seed=seed,
                verbose=False,
            )
            squares = (draws["rate"].astype(float) - a) ** 2
            exact = a + added[0]
            if kind == "reshuffled":
                assert_mean(squares.mean(axis=(1, 2)), exact, detect=0.05)
            else:
                assert_rejected(squares.mean(axis=(1, 2)), exact)

    @pytest.mark.parametrize("sampler", [sgmcmc.scir_setup, sgmcmc.scircv_setup])
    def test_a_chosen_step_of_counts_is_longer(self, sampler):
        z = np.arange(2000) % 4
        found = {}
        for kind in ("reshuffled", "independent"):
            made = sampler(
                lambda params, data: tf.reduce_sum(
                    tf.math.log(tf.gather(params["rate"], data["z"]))
                ),
                *({"z": z}, {"rate": np.full(4, 500.0)}, None),
                alpha=0.5,
                positive=["rate"],
                minibatch_size=20,
                minibatches=kind,
                seed=1,
                verbose=False,
            )
            found[kind] = made.settings["tuning"]["stepsize"][0]
        assert (
            found["reshuffled"]
            > (2 if "cv" not in sampler.__name__ else 0.99) * found["independent"]
        )


KINDS = {
    "in_order": lambda N, n, inner: Reshuffled(N, n, 1, inner),
    "in_windows": lambda N, n, inner: InWindows(N, n, 1, inner, 1 << 16),
}


class TestRows:
    """Which rows are taken when."""

    @pytest.mark.parametrize(("N", "n", "inner"), [(97, 10, 2), (100, 10, 3), (50, 25, 1)])
    def test_an_epoch_has_each_row_once(self, N, n, inner):
        made = Reshuffled(N, n, 1, inner)
        m = N // n
        rows = made.rows(0, 2 * made.span, 0).reshape(-1, m * n)
        assert all(len(set(epoch)) == m * n for epoch in rows)
        assert made.span % inner == 0
        left = [set(range(N)) - set(epoch) for epoch in rows[:: made.span // m]]
        assert N % n == 0 or left[0] != left[1]  # others are left over each time

    @pytest.mark.parametrize("kind", list(KINDS))
    def test_they_do_not_depend_on_how_they_are_asked_for(self, kind):
        one, other = (KINDS[kind](1000, 7, 2) for _ in range(2))
        rows = one.rows(0, 6000, 3)
        parts = [other.rows(k, 60, 3) for k in range(100)]
        np.testing.assert_array_equal(np.concatenate(parts), rows)
        np.testing.assert_array_equal(other.rows(5, 60, 3), rows[300:360])  # and back again

    @pytest.mark.parametrize("kind", list(KINDS))
    def test_chains_have_turns_of_their_own(self, kind):
        made = KINDS[kind](1000, 5, 1)
        a, b = made.rows(0, 50, 0), made.rows(0, 50, 1)
        assert not np.array_equal(a, b)

    def test_orders_are_new_after_some_epochs(self):
        made = Reshuffled(100, 10, 1, 1)
        sets = [{tuple(sorted(row)) for row in made.order(k)} for k in range(3)]
        assert sets[0] != sets[1] != sets[2]

    @pytest.mark.parametrize("size", [64, 1 << 16])
    def test_windows_have_each_row_as_often(self, size):
        """Of 6,400 rows in 16 or 64 pieces, all or some of which fit into a part."""
        made = InWindows(6400, 10, 1, 1, size)
        counts = np.zeros(6400, int)
        for number in range(400):
            rows = made.order(number).reshape(-1)
            assert len(np.unique(rows)) == len(rows) == made.batches * 10
            counts[rows] += 1
        assert counts.min() > 0.5 * counts.mean()
        assert counts.max() < 1.5 * counts.mean()

    def test_windows_mix_rows_from_all_over_the_file(self):
        made = InWindows(10**6, 100, 1, 1, 1000)
        rows = made.order(0)
        assert rows.size * 1000 <= minibatches.WINDOW_BYTES
        spread = rows.std(axis=1) / 10**6
        assert spread.min() > 0.15

    def test_what_does_not_fit_is_independent(self):
        for kind, n, inner, made in (
            ("reshuffled", 51, 1, Independent),
            ("reshuffled", 20, 3, Independent),
            ("reshuffled", 20, 2, Reshuffled),
            ("independent", 20, 1, Independent),
        ):
            hundred = Source({"x": np.zeros(100)}, tf.float64)
            assert type(minibatches_of(kind, hundred, n, 1, inner)) is made


def test_of_a_large_shard_there_is_no_copy():
    source = Source({"x": np.broadcast_to(np.float32(0), (10**6, 20))}, tf.float32)  # 80 MB
    assert type(minibatches_of("reshuffled", source, 100, 1, 1)) is Reshuffled
    source.stands_for = 10**7
    found = minibatches_of("reshuffled", source, 100, 1, 1)
    assert type(found) is InWindows
    assert not found.is_whole


class Steps(sgmcmc.Dynamics):
    """Two minibatches an iteration."""

    inner_steps = 2

    def noise(self, x):
        return Noise(normals=x)

    def update(self, chain, estimate, noise, h):
        return chain


def feeder(data, kind="reshuffled", n=10, chains=3, shared=False):
    theta = {"a": tf.zeros([chains, 2])}
    source = Source(checks.dataset(data, tf.float32), tf.float32)
    wanted = Wanted(Steps().noise(theta), 2, index=True, key=False)
    return Feeder(source, n, wanted, [0.1], theta, 3, shared, kind)


def seen(made, n_iters):
    """The rows that compiled code gets, and their numbers, in some iterations."""
    rows, index = [], []
    for t in range(n_iters):
        j, i = divmod(t, made.size)
        data, block = made.data(t), made.block(j, n_iters)
        index.append(block.index.numpy()[i])
        if data:
            place = block.place.numpy()[i]
            rows.append({k: tf.gather(v, place).numpy() for k, v in data.items()})
        else:
            rows.append({k: v.numpy()[i] for k, v in block.rows.items()})
    made.close()
    return tree.map(lambda *x: np.stack(x), *rows), np.stack(index)


class TestResident:
    """Where compiled code finds the rows: the same, wherever they are."""

    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize(
        ("where", "orders"),
        [
            *(("Shuffled", 1), ("Shuffled", 2), ("InPlace", 1), ("Windows", 1)),
            *(("blocks", 1), ("left_over", 1), ("left_over_in_blocks", 1)),
        ],
    )
    def test_rows_are_those_of_the_data(self, where, orders, shared, monkeypatch, tmp_path):
        N = 97 if "left_over" in where else 201  # of which 7 and 1 are left over
        data = numbered(N)
        row_bytes = Source(checks.dataset(data, tf.float32), tf.float32).row_bytes
        monkeypatch.setattr(resident, "SMALL_BYTES", orders * N * row_bytes)
        if where == "InPlace":
            monkeypatch.setattr(resident, "LARGE_ROW", 1)
        kind = "independent" if where == "InPlace" else "reshuffled"
        if where == "left_over":
            monkeypatch.setattr(resident, "EXCHANGED_BYTES", 1)
        if where == "blocks":
            monkeypatch.setattr(resident, "COPY_BYTES", 1)
        elif where == "Windows":
            data["single"] = on_disk(tmp_path / "single", data["single"])
            monkeypatch.setattr(minibatches, "WINDOW_BYTES", 1)
        made = feeder(data, kind, shared=shared)
        found = type(made.resident).__name__
        in_blocks = {"blocks": "NoneType", "left_over_in_blocks": "NoneType"}
        assert found == {**in_blocks, "left_over": "Shuffled"}.get(where, where)
        assert found != "Shuffled" or made.resident.orders == orders
        rows, index = seen(made, 800)
        assert index.shape == (800, 2, 1 if shared else 3, 10)
        for name, x in numbered(N).items():
            expected = np.asarray(x)[index].astype(rows[name].dtype)
            np.testing.assert_array_equal(rows[name], expected)

    def test_arrays_that_cannot_be_read_in_place_are_copied(self, monkeypatch):
        """Those that are read-only, or that do not start at a multiple of 64 bytes."""
        monkeypatch.setattr(resident, "LARGE_ROW", 1)
        x = resident.page_aligned((51, 2), np.float32)
        x[...] = np.arange(102).reshape(51, 2)
        assert resident.readable(x) is x
        frozen = x.copy()
        frozen.flags.writeable = False
        for given in (frozen, x[1:]):
            made = feeder({"x": given}, "independent", n=5)
            assert type(made.resident) is resident.InPlace
            rows, index = seen(made, 20)
            np.testing.assert_array_equal(rows["x"], given[index])
        monkeypatch.setattr(resident, "COPY_BYTES", 1)
        made = feeder({"x": x[1:]}, "independent", n=5)
        assert made.resident is None  # a copy would be too large
        made.close()

    def test_the_users_arrays_are_not_written_to(self):
        x = np.arange(100.0, dtype=np.float32)
        seen(feeder({"x": x}), 300)
        np.testing.assert_array_equal(x, np.arange(100.0))

    @pytest.mark.parametrize("where", ["Shuffled", slow("Windows"), slow("InPlace")])
    def test_steps_are_one_run(self, where, monkeypatch, tmp_path):
        """Across changes of the order, with SGHMC's inner steps."""
        x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
        monkeypatch.setattr(minibatches, "EPOCHS", 3)
        if where == "InPlace":
            monkeypatch.setattr(resident, "LARGE_ROW", 1)
        if where == "Windows":
            x = on_disk(tmp_path / "x", x)
            monkeypatch.setattr(minibatches, "WINDOW_BYTES", 1)

        def log_lik(params, data):
            return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2

        model = log_lik, {"x": x}, {"mean": np.zeros(3)}, 1e-3
        options = {"minibatch_size": 4, "seed": 3, "verbose": False, "L": 3}
        if where == "InPlace":
            options["minibatches"] = "independent"
        draws = sgmcmc.sghmc(*model, n_iters=60, **options)
        sampler = sgmcmc.sghmc_setup(*model, **options)
        assert type(sampler.feeder.resident).__name__ == where
        for i in range(60):
            sgmcmc.step(sampler)
            np.testing.assert_array_equal(sgmcmc.get_params(sampler)["mean"], draws["mean"][i])

    def test_a_row_of_a_file_that_is_not_finite_is_named(self, tmp_path):
        x = np.ones((400, 2))
        x[17, 1] = np.nan
        with pytest.raises(ValueError, match=r"dataset\['x'\] has nan in row 17"):
            sgmcmc.sgld(
                lambda params, data: -tf.reduce_sum((data["x"] - params["mean"]) ** 2),
                *({"x": on_disk(tmp_path / "x", x)}, {"mean": np.zeros(2)}, 1e-4),
                minibatch_size=5,
                n_iters=1000,
                verbose=False,
            )


def test_thermostats_have_independent_minibatches():
    def log_lik(params, data):
        return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2

    model = log_lik, {"x": np.arange(50.0)}, {"mean": 0.0}
    options = {"minibatch_size": 5, "seed": 1, "verbose": False}
    kinds = {
        name: getattr(sgmcmc, f"{name}_setup")(*model, 1e-4, **options).settings["minibatches"]
        for name in ("sgld", "sghmccv", "sgnht", "sgnhtcv", "psgld")
    }
    assert kinds == {
        **dict.fromkeys(("sgld", "sghmccv", "psgld"), "reshuffled"),
        **dict.fromkeys(("sgnht", "sgnhtcv"), "independent"),
    }
    mixed = sgmcmc.mixed_setup(*model, 1e-4, {"mean": sgmcmc.SGNHT()}, **options)
    assert mixed.settings["minibatches"] == "independent"


def test_another_kind_is_an_error():
    with pytest.raises(ValueError, match=r"minibatches must be 'auto' or .* \(did you mean 'resh"):
        sgmcmc.sgld(
            lambda params, data: tf.reduce_sum(params["a"] * data["x"]),
            *({"x": np.ones(4)}, {"a": 0.0}, 1e-4),
            minibatches="reshufled",
        )


def test_on_a_device_of_the_users_choice():
    """The same draws where a device is named: nothing in a step needs the host. No GPU is here."""

    def log_lik(params, data):
        return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2

    model = log_lik, {"x": np.arange(50.0)}, {"mean": 20.0}, 1e-3
    options = {"minibatch_size": 5, "n_iters": 200, "seed": 1, "verbose": False}
    plain = sgmcmc.sgld(*model, **options)
    with tf.device("/CPU:0"):
        named = sgmcmc.sgld(*model, **options)
    np.testing.assert_array_equal(plain["mean"], named["mean"])


@pytest.mark.slow
def test_large_data_without_xla():
    """One of TensorFlow's optimizers replaced sums in the loop by ones that failed there."""
    x = np.ones((400_000, 54), np.float32)
    sampler = sgmcmc.sgld_setup(
        lambda params, data: -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2,
        *({"x": x}, {"mean": np.zeros(54)}, 1e-9),
        log_prior=lambda params: -tf.reduce_sum(params["mean"] ** 2),
        minibatch_size=100,
        jit=False,
        verbose=False,
    )
    for _ in range(3):
        sgmcmc.step(sampler)
    options = tf.config.optimizer.get_experimental_options()
    assert options["arithmetic_optimization"]  # as it was before, for the user's own functions
