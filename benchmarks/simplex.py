"""Samplers of probabilities and topics beside NumPy, plain C loops and collapsed Gibbs sampling."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import sgmcmc
from sgmcmc.dynamics import Noise
from sgmcmc.dynamics.scir import SCIR, LogChain
from sgmcmc.estimators import Estimate
from sgmcmc.models.corpus import Corpus, corpus
from sgmcmc.models.gibbs import expected_counts, room
from sgmcmc.models.lda import TopicModel

from .race import say, spread, undisturbed

ALPHA = BETA = 0.1  # priors of the topics in a document, and of the words in a topic
DOCUMENTS = 50  # of a minibatch
MINIBATCHES = 5
LONG, SHORT = (100, 100), (20, 40)  # sweeps before and during the average
FLAGS = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
COMPILER = shutil.which("gcc") or shutil.which("cc")

COMMON = {"n_iters": 1000, "burn_in": 1000, "thin": 100, "minibatch_size": 100}
SETTINGS: dict[str, dict[str, Any]] = {  # of `fit_lda`, by sampler
    "scir": {"stepsize": sgmcmc.decay(0.5, 10, 0.5), **COMMON},
    "scircv": {"stepsize": sgmcmc.decay(0.5, 10, 0.5), **COMMON},
    "sgrld": {"stepsize": sgmcmc.decay(0.01, 1000, 0.6), **COMMON},
}


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    rounds: int = 7
    alphas_and_steps: tuple[tuple[float, float], ...] = tuple(product((0.1, 0.5), (0.1, 0.5)))
    large: tuple[int, int] = (100, 8000)
    large_steps: int = 20
    small_steps: int = 10_000
    documents: int | None = None  # all
    topics: int = 50
    forming: int = 100  # sweeps of the collapsed sampler after which topics have formed
    runs: int = 20  # whose error is averaged
    truths: int = 20  # long runs of the C loop
    truth: tuple[int, int] = (500, 5000)
    sweeps: int = 400  # of the collapsed sampler whose perplexity is compared
    thin: int = 20
    samplers: tuple[str, ...] = tuple(SETTINGS)
    lengths: tuple[tuple[str, int], ...] = ()  # in place of those in SETTINGS


QUICK = Scale(
    rounds=2,
    alphas_and_steps=((0.1, 0.1),),
    large=(4, 2000),
    large_steps=2,
    small_steps=100,
    documents=80,
    topics=2,
    forming=5,
    runs=2,
    truths=2,
    truth=(5, 20),
    sweeps=8,
    thin=2,
    samplers=("scircv",),  # to compile each would take most of the time
    lengths=(("n_iters", 4), ("burn_in", 4), ("thin", 2), ("minibatch_size", 10)),
)


class Task(NamedTuple):
    """What is timed, and how often it does its work in a call."""

    call: Callable[[], Any]
    times: int


class Tokens(NamedTuple):
    """Documents token by token: those of document d are starts[d] ... starts[d + 1] − 1."""

    document: np.ndarray
    word: np.ndarray
    starts: np.ndarray


def run(quick: bool) -> dict:
    """All of it; a quick run does without topics where it has no data or no compiler."""
    scale = QUICK if quick else Scale()
    result: dict[str, Any] = {"versions": versions(), "transition": transitions(scale)}
    try:
        data = sgmcmc.get_dataset("kos")
        if COMPILER is None:
            raise FileNotFoundError("there is no C compiler: neither gcc nor cc")
    except (FileNotFoundError, ConnectionError, ImportError) as error:
        if not quick:
            raise
        say(f"nothing of topics: {error}")
        return result
    counts = data["counts"][: scale.documents]
    result["expectations"] = expectations(corpus("counts", counts), scale)
    result["perplexity"] = perplexities(counts, data["vocab"], scale)
    return result


def versions() -> dict[str, str]:
    """Of what is compared."""
    found = {name: metadata.version(name) for name in ("sgmcmc", "tensorflow", "numpy")}
    if COMPILER is not None:
        asked = subprocess.run([COMPILER, "--version"], check=True, capture_output=True, text=True)
        found["C compiler"] = asked.stdout.splitlines()[0]
    return found


def in_turn(tasks: dict[str, Task], rounds: int) -> dict[str, dict]:
    """Seconds of each, in turn, so many times; all have been called once before."""
    samples: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task.call()
    for _ in range(rounds):
        for name, task in tasks.items():

            def sample(task: Task = task) -> float:
                start = time.perf_counter()
                task.call()
                return (time.perf_counter() - start) / task.times

            samples[name].append(undisturbed(sample, []))
    return {name: spread(found) for name, found in samples.items()}


# The transition of SCIR


def transitions(scale: Scale) -> dict:
    """Seconds of a transition, and of NumPy's two draws."""
    found = {}
    for alpha, h in scale.alphas_and_steps:
        rng = np.random.default_rng(1)
        cases = [
            (topic_like(scale.large, rng), scale.large_steps, 0.6),
            (np.array([800, 100, 100] + [0] * 7), scale.small_steps, 0.3),
        ]
        for counts, steps, most in cases:
            size = " × ".join(f"{n:,}" for n in counts.shape)
            name = f"{size}, α = {alpha}, h = {h}"
            say(f"transition: {name}")
            shape = counts + alpha
            log_theta = log_gamma(shape, rng)
            tasks = {
                "sgmcmc": Task(transition(log_theta, shape, h, steps, rng), steps),
                "NumPy": numpy_draws(log_theta, shape, h, steps, rng),
            }
            found[name] = {**in_turn(tasks, scale.rounds), "at most": most}
    return found


def topic_like(size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Counts of words in topics: one in ten is not zero, and 1 on average."""
    return rng.poisson(rng.gamma(0.02, 50, size=size))


def log_gamma(shape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The logarithms of draws from G(shape), which do not underflow."""
    return np.log(rng.standard_gamma(shape + 1)) - rng.standard_exponential(shape.shape) / shape


def transition(
    log_theta: np.ndarray, shape: np.ndarray, h: float, steps: int, rng: np.random.Generator
) -> Callable[[], np.ndarray]:
    """Transitions of a stationary chain in a compiled loop."""
    sampler = SCIR(alpha=ALPHA)
    target, stepsize = ({"omega": tf.constant(x, tf.float32)} for x in (shape, h))
    start = [tf.constant(x, tf.float32) for x in (np.exp(log_theta), log_theta)]
    keys = tf.constant(rng.integers(-(2**31), 2**31, (steps, 2)), tf.int32)

    @tf.function(jit_compile=True, autograph=False)
    def chain(theta: tf.Tensor, log_theta: tf.Tensor, keys: tf.Tensor) -> LogChain:
        def body(i: tf.Tensor, chain: LogChain) -> tuple:
            estimate = Estimate(0.0, target, 1)
            return i + 1, sampler.update(chain, estimate, Noise(key=keys[i]), stepsize)

        start = 0, LogChain({"omega": theta}, {"omega": log_theta})
        return tf.while_loop(lambda i, _: i < steps, body, start, parallel_iterations=1)[1]

    return lambda: chain(*start, keys).log_theta["omega"].numpy()


def numpy_draws(
    log_theta: np.ndarray, shape: np.ndarray, h: float, steps: int, rng: np.random.Generator
) -> Task:
    """The Poisson and the Gamma draws alone, and in double precision: NumPy has no other."""
    rate = np.exp(log_theta - h) / -np.expm1(-h)
    times = min(steps, 4) if shape.size > 1000 else steps

    def draws() -> None:
        for _ in range(times):
            rng.standard_gamma(shape + rng.poisson(rate))

    return Task(draws, times)


# C


def library(name: str) -> ctypes.CDLL:
    """One of the C files of this folder, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        path, source = Path(folder, f"{name}.so"), Path(__file__).with_name(f"{name}.c")
        subprocess.run([COMPILER, *FLAGS, source, "-o", path], check=True)
        return ctypes.CDLL(str(path))


def pointer(x: np.ndarray) -> ctypes.c_void_p:
    """An array as C sees it."""
    return ctypes.c_void_p(x.ctypes.data)


def tokens(documents: Corpus) -> Tokens:
    """The tokens of these documents."""
    lengths = documents.lengths
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    document = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    return Tokens(document, np.repeat(documents.words, documents.counts), starts)


def c_expected(phi: np.ndarray, documents: Corpus) -> Callable[..., np.ndarray]:
    """The expected counts by topic and word, by the C loop (burn-in, samples, seed)."""
    loop = library("gibbs").expected_counts
    by_word, found = np.ascontiguousarray(phi.T, np.float32), tokens(documents)

    def call(n_burn_in: int, n_samples: int, seed: int) -> np.ndarray:
        counts = np.empty_like(by_word)
        loop(
            len(phi),
            documents.n_words,
            len(documents),
            *map(pointer, (by_word, found.starts, found.word)),
            ctypes.c_float(ALPHA),
            n_burn_in,
            n_samples,
            ctypes.c_uint64(seed),
            pointer(counts),
        )
        return counts.T

    return call


def collapsed(documents: Corpus, topics: int, sweeps: int, thin: int) -> np.ndarray:
    """Draws of the topics, (draws, topics, words), by the collapsed Gibbs sampler."""
    found = tokens(documents)
    phi = np.empty((sweeps // thin, topics, documents.n_words), np.float32)
    library("collapsed").collapsed(
        ctypes.c_int64(len(found.word)),
        *map(pointer, (found.document, found.word)),
        len(documents),
        topics,
        documents.n_words,
        *map(ctypes.c_double, (ALPHA, BETA)),
        sweeps,
        thin,
        ctypes.c_uint64(1),
        pointer(phi),
    )
    return phi


# Gibbs expectations


def expectations(documents: Corpus, scale: Scale) -> dict:
    """Seconds of the expected counts of a minibatch, and root mean squares of their errors."""
    say("expectations: topics")
    phi = collapsed(documents, scale.topics, scale.forming, scale.forming)[0]
    rng = np.random.default_rng(0)
    batches = [rng.choice(len(documents), DOCUMENTS, replace=False) for _ in range(MINIBATCHES)]
    loops = [c_expected(phi, documents.some(batch)) for batch in batches]
    say("expectations: times")
    tasks, first = {}, {}
    for sweeps in (LONG, SHORT):
        label = f"{sweeps[0]} + {sweeps[1]} sweeps"
        programs = list(our_expected(phi, documents, batches, sweeps))
        for name, each in (("sgmcmc", programs), ("C loop", [c_run(x, sweeps) for x in loops])):
            tasks[f"{name} | {label}"] = Task(lambda each=each: [f(1) for f in each], MINIBATCHES)
            first[f"{name} | {label}"] = each[0]
    times = in_turn(tasks, scale.rounds)
    say("expectations: errors")
    long = [loops[0](*scale.truth, 1000 + seed).astype(float) for seed in range(scale.truths)]
    truth = np.mean(long, axis=0)
    seeds = range(1, scale.runs + 1)
    squares = {
        name: np.array([((f(seed) - truth) ** 2).sum() for seed in seeds])
        for name, f in first.items()
    }
    return {name: {"seconds": times[name], **error(squares[name])} for name in tasks}


def error(squares: np.ndarray) -> dict[str, float]:
    """The root of the mean over runs, and its own standard error relative to it."""
    relative = squares.std(ddof=1) / np.sqrt(len(squares)) / squares.mean() / 2
    return {"error": float(np.sqrt(squares.mean())), "error of error": float(relative)}


def our_expected(
    phi: np.ndarray, documents: Corpus, batches: list[np.ndarray], sweeps: tuple[int, int]
) -> Iterator[Callable[[int], np.ndarray]]:
    """For each minibatch, its expected counts as a function of a seed; compiled once for all."""
    space, rows = room(documents.lengths, DOCUMENTS), documents.rows()
    topics = tf.constant(phi)

    @tf.function(jit_compile=True, autograph=False)
    def expect(phi: tf.Tensor, words: tf.Tensor, counts: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        return expected_counts(phi, words, counts, ALPHA, key, space, *sweeps).words

    for batch in batches:
        arrays = [tf.constant(rows[name][batch]) for name in ("words", "counts")]
        yield lambda seed, arrays=arrays: expect(topics, *arrays, tf.constant([seed, 7])).numpy()


def c_run(loop: Callable[..., np.ndarray], sweeps: tuple[int, int]) -> Callable[[int], np.ndarray]:
    """The same of the C loop."""
    return lambda seed: loop(*sweeps, seed)


# Perplexity


def perplexities(counts: Any, vocab: np.ndarray, scale: Scale) -> dict:
    """Held-out perplexity and seconds of each sampler, the collapsed one first."""
    order = np.random.default_rng(0).permutation(counts.shape[0])
    test, train = np.split(order, [counts.shape[0] // 10])
    found = {}

    def record(name: str, fit: Callable[[], TopicModel], settings: dict[str, Any]) -> None:
        say(f"perplexity: {name}")
        start = time.perf_counter()
        model = fit()
        seconds = time.perf_counter() - start
        found[name] = {
            "perplexity": model.perplexity(counts[test]),
            "seconds": seconds,
            "draws": len(model.draws["phi"]),
            "settings": ", ".join(f"{key}={value}" for key, value in settings.items()),
        }

    def gibbs() -> TopicModel:
        phi = collapsed(corpus("counts", counts[train]), scale.topics, scale.sweeps, scale.thin)
        draws = sgmcmc.Draws({"phi": phi[len(phi) // 2 :]}, {}, {"sampler": "gibbs"})
        return TopicModel(draws, vocab, ALPHA, *SHORT)

    def by_minibatches(sampler: str, settings: dict[str, Any]) -> TopicModel:
        priors = {"alpha": ALPHA, "beta": BETA}
        more = {**priors, **settings, "seed": 1, "verbose": False}
        return sgmcmc.fit_lda(counts[train], vocab, scale.topics, sampler, **more)

    record("collapsed Gibbs, C", gibbs, {"sweeps": scale.sweeps, "thin": scale.thin})
    for sampler in scale.samplers:
        asked = SETTINGS[sampler] | dict(scale.lengths)
        record(sampler, lambda sampler=sampler, asked=asked: by_minibatches(sampler, asked), asked)
    return found
