"""Topic models: the formats that are read, the topics that are found, and the errors."""

import functools
import gzip
import re

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_array

import sgmcmc
from sgmcmc.estimators.counts import CountedTwice
from sgmcmc.models import lda
from sgmcmc.models.corpus import corpus

COUNTS = np.array([[2, 0, 1, 0], [0, 3, 0, 0], [1, 1, 1, 5]])
WORDS = ["apple", "pear", "saw", "hammer"]
UCI = "3\n4\n7\n1 1 2\n1 3 1\n2 2 3\n3 1 1\n3 2 1\n3 3 1\n3 4 5\n"
LDA_C = "2 0:2 2:1\n1 1:3\n4 0:1 1:1 2:1 3:5\n"


def dense(found):
    full = np.zeros((len(found), found.n_words), int)
    document = np.repeat(np.arange(len(found)), np.diff(found.starts))
    full[document, found.words] = found.counts
    return full


@pytest.fixture
def files(tmp_path):
    for name, text in (("uci.txt", UCI), ("lda-c.dat", LDA_C)):
        (tmp_path / name).write_text(text)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.mark.parametrize("name", ["uci.txt", "uci.txt.gz", "lda-c.dat", "lda-c.dat.gz"])
def test_files(name, files):
    np.testing.assert_array_equal(dense(corpus("counts", files / name)), COUNTS)
    np.testing.assert_array_equal(dense(corpus("counts", str(files / name), 4)), COUNTS)


@pytest.mark.parametrize("form", [np.asarray, csr_array, coo_matrix, np.ndarray.tolist])
@pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
def test_matrices(form, dtype):
    counts = COUNTS.astype(dtype)
    np.testing.assert_array_equal(dense(corpus("counts", form(counts))), counts.astype(int))


def test_entries_that_stand_twice_are_added():
    twice = csr_array((np.array([1, 2, 4]), np.array([0, 0, 1]), np.array([0, 2, 3])), (2, 2))
    np.testing.assert_array_equal(dense(corpus("counts", twice)), [[3, 0], [0, 4]])


def test_rows_are_those_of_the_matrix():
    found = corpus("counts", COUNTS)
    assert found.lengths.tolist() == [3, 3, 8]
    words, counts = found.rows()["words"], found.rows()["counts"]
    assert words.shape == counts.shape == (3, 4)
    np.testing.assert_array_equal(words[0:2], [[0, 2, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_array_equal(counts[np.array([0, 2])], [[2, 1, 0, 0], [1, 1, 1, 5]])
    np.testing.assert_array_equal(dense(found.some(np.array([2, 0]))), COUNTS[[2, 0]])


def test_a_split_has_all_tokens(seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(1, (50, 20)) + 1
    first, second = corpus("counts", counts).split(0.5, rng)
    np.testing.assert_array_equal(dense(first) + dense(second), counts)
    np.testing.assert_array_equal(first.lengths, np.ceil(counts.sum(axis=1) / 2))


def with_value(value):
    counts = COUNTS.astype(float)
    counts[1, 2] = value
    return counts


BAD = {  # what the error says, … for some words of it: what is passed
    "counts must hold whole numbers from 0 to 2³¹ − 1, but has nan in row 1": {
        "counts": with_value(np.nan)
    },
    "counts must hold…but has -1.0 in row 1": {"counts": with_value(-1)},
    "counts must hold…but has 0.5 in row 1": {"counts": csr_array(with_value(0.5))},
    "counts must hold…but has inf in row 1": {"counts": coo_matrix(with_value(np.inf))},
    "counts must have words in each document, but document 1 has none": {
        "counts": COUNTS * [[1], [0], [1]]
    },
    "counts is of 4 words, but the vocabulary has 3": {"vocab": WORDS[:3]},
    "counts must be a matrix of documents × words": {"counts": COUNTS[0]},
    "counts must be the path of a file that can be read": {"counts": "nowhere.txt"},
    "counts must be a file of UCI's bags of words or of LDA-C": {"counts": __file__},
    "vocab must be a list of words, not 'apple'": {"vocab": "apple"},
    "n_topics must be a positive whole number": {"n_topics": 0},
    "n_topics must be at least 2, not 1": {"n_topics": 1},
    "sampler must be one of ['scir', 'scircv', 'sgrld'], not 'sgld'": {"sampler": "sgld"},
    "alpha must be a finite number above 0, not 0": {"alpha": 0},
    "beta must be a finite number above 0, not -1": {"beta": -1},
    "stepsize must be a finite number above 0, not 0": {"stepsize": 0},
    "n_samples must be a positive whole number": {"n_samples": 0},
    "refresh_every and refresh_size are for sampler": {"refresh_every": 10},
    "refresh_size must be at most N = 3": {"sampler": "scircv", "refresh_size": 10},
    "minibatch_size must be a whole number of rows": {"minibatch_size": 50},
    "start must have shape (2, 4), not (4, 2)": {"start": np.ones((4, 2))},
    "start must not be negative, but has -1": {"start": -np.ones((2, 4))},
    "counts must have documents, but has none": {"counts": csr_array((0, 4), dtype=int)},
    "counts must have documents of at most 1,000,000 tokens…row 1 has 2,147,483,650": {
        "counts": with_value(2**31 - 1)
    },
    "vocab must be a list of words, not ndarray": {"vocab": np.array([1, "a", "b", "c"], object)},
}


@pytest.mark.parametrize("message", BAD)
def test_mistakes_are_told_at_once(message):
    arguments = {"counts": COUNTS, "vocab": WORDS, "n_topics": 2, "minibatch_size": 2}
    parts = (re.escape(part) for part in message.split("…"))
    with pytest.raises((TypeError, ValueError), match=".*".join(parts)):
        sgmcmc.fit_lda(**{**arguments, **BAD[message]}, verbose=False)


def test_a_file_with_a_word_outside_its_vocabulary_is_refused(tmp_path):
    (tmp_path / "bad.txt").write_text(UCI.replace("3 4 5", "3 5 5"))
    with pytest.raises(ValueError, match=r"the word 4 .*outside the vocabulary"):
        corpus("counts", tmp_path / "bad.txt")
    (tmp_path / "bad.dat").write_text(LDA_C.replace("3:5", "9:5"))
    with pytest.raises(ValueError, match=r"the word 9 .*outside the vocabulary"):
        corpus("counts", tmp_path / "bad.dat", 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (UCI[:-6], "has 6 entries where its third line says 7: the file is not whole"),
        (UCI[:-2], r"has 6\.6+7 entries"),
        (UCI.replace("3 4 5", "3 4 -5"), "but has -5 in row 2"),
        (UCI.replace("2 2 3", "4 2 3"), r"has a document outside 1 \.\.\. 3"),
        (LDA_C[:-5], "has 3 words in document 2, whose line begins with 4: the file is not whole"),
        (LDA_C[:-2], "which '.*' is not"),
        (UCI.replace("2 2 3", "2 pear 3"), "which '.*' is not"),
        ("", "which '.*' is not"),
        ("-5\n6\n0\n", "which '.*' is not"),
    ],
)
def test_files_that_are_not_whole_are_refused(text, message, tmp_path):
    (tmp_path / "bad").write_text(text)
    with pytest.raises(ValueError, match=message):
        corpus("counts", tmp_path / "bad")


def test_a_gzip_file_that_is_not_whole_is_refused(files):
    content = (files / "uci.txt.gz").read_bytes()
    for name, damaged in (
        ("cut", content[:-12]),
        ("changed", content[:12] + b"---" + content[15:]),
    ):
        (files / name).write_bytes(damaged)
        with pytest.raises(ValueError, match="counts is a gzip file that is not whole"):
            corpus("counts", files / name)


def by_hand(*phi, alpha=0.1):
    """A model with these draws of its topics."""
    draws = sgmcmc.Draws({"phi": np.float32(phi)}, {}, {"sampler": "by hand"})
    return lda.TopicModel(draws, None, alpha, 5, 5)


def test_perplexity_is_that_of_mean_probabilities():
    """All topics are equal, so that Gibbs sampling has no effect; even counts can be halved."""
    first, second = [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]
    word = np.arange(120) % 4
    model = by_hand([first, first], [second, second])
    found = model.perplexities(6 * np.eye(4, dtype=int)[word])
    mean = np.array([first, np.add(first, second) / 2])
    np.testing.assert_allclose(found, np.exp(-np.log(mean[:, word]).mean(axis=1)), rtol=1e-4)
    assert model.perplexity(6 * np.eye(4, dtype=int)[word]) == found[1]


def test_topics_are_in_the_order_of_documents():
    word = np.random.default_rng(1).integers(0, 4, 120)
    found = by_hand(np.eye(4)).topics(9 * np.eye(4, dtype=int)[word])
    np.testing.assert_array_equal(found.argmax(axis=1), word)


def test_words_may_be_objects():
    found = lda.vocabulary(np.array(WORDS, object))
    assert found.tolist() == WORDS


def test_mistakes_with_a_model_are_told():
    model = by_hand([[0.5, 0.5], [0.1, 0.9]])
    with pytest.raises(ValueError, match="counts must have documents of two tokens or more"):
        model.perplexity(np.eye(2, dtype=int))
    with pytest.raises(ValueError, match="share = 1 leaves no token to predict"):
        model.perplexity([[2, 2]], share=1)
    for method in (model.topics, model.perplexity):
        with pytest.raises(ValueError, match="seed must be a whole number, 0 or more, not -1"):
            method([[2, 2]], seed=-1)
        with pytest.raises(ValueError, match="counts is of 3 words"):
            method([[2, 2, 1]])


@pytest.mark.slow
def test_control_variates_are_those_for_expectations(monkeypatch):
    """`test_weights_of_a_mixture` shows that these have the right width, and others do not."""

    def setup(*args, gradient, **more):
        assert type(gradient) is CountedTwice
        return sgmcmc.sample_setup(*args, gradient=gradient, **more)

    monkeypatch.setattr(lda, "sample_setup", setup)
    more = {"minibatch_size": 2, "n_iters": 2, "burn_in": 0, "thin": 1, "verbose": False}
    model = sgmcmc.fit_lda(COUNTS, WORDS, 2, "scircv", refresh_every=1, **more)
    assert model.draws["phi"].shape == (2, 2, 4)


K, W, TOKENS = 5, 1000, 100
N_TOKENS = 1000 * TOKENS


def synthetic(rng, documents, alpha=0.1, beta=0.02):
    """Topics, and documents of them."""
    phi = rng.dirichlet(np.full(W, beta), K)
    p = rng.dirichlet(np.full(K, alpha), documents) @ phi
    return phi, csr_array(rng.multinomial(TOKENS, p / p.sum(axis=1, keepdims=True)))


def true_model(phi, like):
    """The topics that made the documents, as if they had been drawn."""
    draws = sgmcmc.Draws({"phi": phi[None].astype("float32")}, {}, like.draws.settings)
    return lda.TopicModel(draws, None, 0.1, 20, 40)


@pytest.fixture(scope="module")
def study(module_seed):
    """Topics, documents to learn from and others, and a way to fit samplers that start at φ."""
    phi, documents = synthetic(np.random.default_rng(module_seed), 1300)
    train, test = documents[:1000], documents[1000:]

    @functools.cache
    def fit(sampler, h, beta=0.02):
        return sgmcmc.fit_lda(
            *(train, None, K, sampler),
            stepsize=h,
            beta=beta,
            n_iters=200,
            burn_in=100,
            thin=10,
            start=phi,
            seed=module_seed,
            verbose=False,
        )

    return phi, train, test, fit


def moved(model, phi):
    """Squared distances of draws from φ relative to a posterior's variance; noise adds to 2."""
    sizes = N_TOKENS / K
    distance = ((model.draws["phi"] - phi) ** 2).sum(axis=2).mean()
    return distance / ((phi * (1 - phi)).sum(axis=1).mean() / sizes)


def on_absent_words(model, train, beta=0.02):
    """Their probability relative to its posterior mean β/(β + number of tokens)."""
    absent = np.flatnonzero(train.sum(axis=0) == 0)
    mean = model.draws["phi"][..., absent].sum(axis=2).mean()
    return mean / (beta * len(absent) * K / (N_TOKENS + beta * W * K))


@pytest.mark.slow
def test_perplexity_near_that_of_the_truth(study):
    """The design page has 64.0 where the truth has 63.07."""
    phi, _, test, fit = study
    fits = [fit("scir", 0.1), fit("scircv", 0.1), fit("sgrld", 0.01)]
    truth = true_model(phi, fits[0]).perplexity(test)
    scir, scircv, sgrld = found = [model.perplexity(test) for model in fits]
    print(truth, found)
    assert scir <= truth * 64.0 / 63.07
    assert scircv <= truth * 64.0 / 63.07
    assert sgrld > scir


@pytest.mark.slow
def test_topics_move_about_the_truth(study):
    """Some standard deviations, and with little on words that are nowhere.

    Not a test of the spread. Bounds are twice and half of what was found, from chi-squared sums of
    hundreds of components; controls are a chain that stays, another β, and `sgrld`.
    """
    phi, train, _, fit = study
    for model in (fit("scir", 0.1), fit("scircv", 0.1)):
        assert 1 < moved(model, phi) < 5
        assert 0.5 < on_absent_words(model, train) < 2
    assert moved(fit("scir", 1e-12), phi) < 0.01
    assert on_absent_words(fit("scir", 0.1, beta=0.1), train) > 2
    assert on_absent_words(fit("sgrld", 0.01), train) > 2


@pytest.mark.slow
def test_topics_of_new_documents(study, seed):
    phi, _, _, fit = study
    scir = fit("scir", 0.1)
    rng = np.random.default_rng(seed)
    counts = np.stack([rng.multinomial(300, p / p.sum()) for p in phi.astype(float)])
    proportions = scir.topics(counts)
    np.testing.assert_allclose(proportions.sum(axis=1), 1, rtol=1e-5)
    assert (proportions.argmax(axis=1) == np.arange(K)).all()
    assert np.diag(proportions).min() > 0.9
    np.testing.assert_array_equal(proportions, scir.topics(counts))
    assert len(scir.top_words(7)) == K
    for j, words in enumerate(scir.top_words(1)):
        assert words[0] in np.argsort(-phi[j])[:3]


@pytest.mark.slow
def test_same_seed_same_topics():
    _, documents = synthetic(np.random.default_rng(1), 60)
    one, same = (
        sgmcmc.fit_lda(
            *(documents, None, 3),
            minibatch_size=10,
            n_iters=4,
            burn_in=0,
            thin=2,
            seed=seed,
            n_samples=2,
            verbose=False,
        ).draws["phi"]
        for seed in (1, 1)
    )
    assert one.shape == (2, 3, W)
    np.testing.assert_array_equal(one, same)
