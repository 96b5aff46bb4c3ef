"""Data in tables of pandas, and what is said where columns of integers meet real numbers."""

import re

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import sgmcmc

N = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(20, 80, N),
        "member": RNG.random(N) < 0.5,
        "income": RNG.normal(size=N),
        "site": RNG.integers(0, 4, N).astype("int32"),
        "y": RNG.integers(0, 2, N).astype("int8"),
    },
    index=np.arange(N)[::-1],
)
PARAMS = {"b": np.zeros(3), "site": np.zeros(4)}


def mixing(params, data):
    """A logistic regression that does not mind the types of its columns."""
    b, site = params["b"], tf.gather(params["site"], data["site"])
    eta = b[0] * data["age"] + b[1] * data["member"] + b[2] * data["income"] + site
    return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(data["y"], eta))


def casting(*names):
    """The same with these columns cast."""
    return lambda params, data: mixing(
        params, {k: tf.cast(x, tf.float32) if k in names else x for k, x in data.items()}
    )


RIGHT = casting("age", "member", "y")


def draw(dataset, log_lik=RIGHT, params=PARAMS):
    arguments = {"minibatch_size": 10, "n_iters": 50, "jit": False, "seed": 1, "verbose": False}
    return sgmcmc.sgld(log_lik, dataset, params, 1e-5, **arguments)


def test_columns_of_a_frame_are_the_arrays_of_a_dict():
    arrays = draw({name: FRAME[name].to_numpy() for name in FRAME})
    for same in (FRAME, {name: FRAME[name] for name in FRAME}):
        np.testing.assert_array_equal(draw(same)["b"], arrays["b"])


def test_a_frame_in_a_dict_is_a_matrix():
    X = FRAME[["income", "age"]].assign(dtype=1.0)  # a name that is an attribute of arrays
    params = {"b": np.zeros(3)}

    def log_lik(params, data):
        return -tf.reduce_sum((tf.linalg.matvec(data["X"], params["b"]) - 1) ** 2)

    of_frame = draw({"X": X}, log_lik, params)
    np.testing.assert_array_equal(of_frame["b"], draw({"X": X.to_numpy()}, log_lik, params)["b"])


def with_age(values):
    return FRAME.assign(age=values)


HOLDS = "dataset['age'] must hold real numbers or booleans, not"
AGE = FRAME["age"]
CODES = "category values: use their integer codes, .cat.codes"
NULLABLE = "values: fill in missing ones, and convert them by"
BAD = {
    "dataset must have strings as names, not 3": FRAME.rename(columns={"age": 3}),
    "dataset must have strings as names, not ('a', 'age')": pd.concat({"a": FRAME}, axis=1),
    "dataset has several columns 'age': give each": pd.concat([FRAME, FRAME[["age"]]], axis=1),
    "dataset must be a dict of arrays, such as…or a DataFrame, not Series of shape (60,)": AGE,
    "dataset['age'] has nan in row 0": with_age(AGE.where(np.arange(N) > 0)),
    f"{HOLDS} text: code it as integers": with_age("old"),
    f"{HOLDS} text: code": with_age(np.array(["old"] * N, object)),
    f"{HOLDS} {CODES}": with_age(AGE.astype("category")),
    f"{HOLDS} object values: convert them by .astype('float64')": with_age(AGE.astype(object)),
    f"{HOLDS} Int64 {NULLABLE} .astype('int64')": with_age(AGE.astype("Int64")),
    f"{HOLDS} Float64 {NULLABLE} .astype('float64')": with_age(AGE.astype("Float64")),
    f"{HOLDS} boolean {NULLABLE} .astype('bool')": with_age((AGE > 50).astype("boolean")),
    f"{HOLDS} datetime64[…] values: use numbers": with_age(pd.Timestamp("2020-01-01")),
    f"{HOLDS} datetime64[…, UTC] values: use": with_age(pd.Timestamp("2020-01-01", tz="UTC")),
}


@pytest.mark.parametrize("message", BAD)
def test_other_columns_are_refused(message):
    wanted = ".*".join(map(re.escape, message.split("…")))
    with pytest.raises((TypeError, ValueError), match=f"^{wanted}"):
        draw(BAD[message])


@pytest.mark.parametrize(
    ("cast", "said"),
    [
        (
            ("member", "y"),
            "dataset['age'] is int64: use tf.cast(data['age'], tf.float32) in log_lik, or pass it "
            "as floating point",
        ),
        (("age", "y"), "dataset['member'] is bool: use tf.cast(data['member'], tf.float32)"),
        (("age", "member"), "dataset['y'] is int8: use tf.cast(data['y'], tf.float32)"),
        (
            (),
            "dataset['age'] is int64, dataset['member'] is bool, dataset['y'] is int8: use "
            "tf.cast(data['age'], tf.float32) and so on in log_lik, or pass them as floating point",
        ),
    ],
)
def test_columns_that_must_be_cast_are_named(cast, said):
    """And no others: the column of sites is an index."""
    with pytest.raises(ValueError, match=rf"Error: .*\. {re.escape(said)}"):
        draw(FRAME, casting(*cast))


def test_no_column_is_named_where_types_are_not_at_fault():
    def log_lik(params, data):
        return undefined + tf.reduce_sum(params["b"])  # noqa: F821

    with pytest.raises(ValueError, match=r"name 'undefined' is not defined$"):
        draw(FRAME, log_lik)
