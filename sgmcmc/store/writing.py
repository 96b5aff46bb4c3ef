"""The collector that stores the draws of a run on disk, and with them where the chains stand."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import checks, tree
from ..draws import RENAMED, Draws, by_dotted_name
from ..origin import Origin
from . import identity, layout, nests, record
from .files import NO_ROOM, Lock, put, sync
from .layout import Kind
from .reading import chunk_of, opened

if TYPE_CHECKING:
    from ..sampler import Sampler

STATE, START = "state-{}.npz", "start.npz"


class Store:
    """Stores draws as they come, and commits them every `flush` seconds.

    A commit writes the chunk of the latest draws, the state of the chains, and at last the record,
    which says how many draws there are. Whole chunks were written before.

    Parameters
    ----------
    folder : Path
        A new folder, or that of a store with the record `known`, which is continued.
    settings : dict
        Those of the draws.
    run : dict
        The iteration `origin` at which the run began, its `n_iters`, `burn_in` and `thin`, and how
        many draws were there before, `base`.
    """

    def __init__(
        self,
        folder: Path,
        sampler: Sampler,
        settings: dict[str, Any],
        run: dict[str, int],
        flush: float,
        known: dict[str, Any] | None = None,
    ) -> None:
        self.folder, self.settings, self.run, self.flush = folder, settings, run, flush
        self.chains, self.identity = sampler.engine.chains, sampler.identity()
        self.kinds: list[Kind] = []
        self.length, self.count, self.committed = 0, 0, 0
        self.iteration = run["origin"]  # of the last commit
        self.buffers: list[np.ndarray] = []
        self.unsynced: list[Path] = []
        self.start: dict[str, Any] | None = None
        self.old_state: str | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"out must be a folder that can be made: {error}") from None
        self.lock = Lock(folder)
        if record.read(folder) != known:  # since it was looked at, before there was a lock
            self.lock.release()
            raise ValueError(
                f"out: another run has written to {str(folder)!r} just now: give another path"
            )
        if known is not None:
            self.go_on(known)
        self.last = time.monotonic()

    def go_on(self, known: dict[str, Any]) -> None:
        """Continue a store where its record ends."""
        self.start, self.old_state = known["start"], known["state"]["file"]
        self.iteration = known["iteration"]
        self.kinds, self.length = record.kinds(known), known["chunk"]
        self.count = self.committed = known["draws"]
        if self.kinds:
            self.allocate()
            number, filled = divmod(self.count, self.length)
            for kind, buffer in zip(self.kinds, self.buffers if filled else ()):
                buffer[...] = chunk_of(self.folder, kind, self.chains, self.length, number)

    def allocate(self) -> None:
        """Allocate a chunk of each array."""
        shapes = [k.chunk(self.chains, self.length) for k in self.kinds]
        self.buffers = [np.zeros(s, k.dtype) for s, k in zip(shapes, self.kinds)]

    def add(self, at: int, draws: Mapping[str, Any]) -> None:
        """Store the draws with numbers at, at + 1, ...; arrays have shape (draws, chains, ...)."""
        arrays = by_kind(draws)
        self.expect(list(arrays))
        at += self.run["base"]
        with self.told():
            taken, many = 0, len(next(iter(arrays.values())))
            while taken < many:
                number, filled = divmod(at + taken, self.length)
                some = min(many - taken, self.length - filled)
                for buffer, x in zip(self.buffers, arrays.values()):
                    part = x[taken : taken + some]
                    buffer[:, filled : filled + some] = part.swapaxes(0, 1)
                taken += some
                if filled + some == self.length:
                    self.write_chunk(number)
        self.count = at + many

    def expect(self, kinds: list[Kind]) -> None:
        """Learn what is to be stored, or see that it is what the run began with."""
        if not self.kinds:
            self.kinds, self.length = kinds, layout.chunk_length(kinds, self.chains)
            self.allocate()
        elif self.kinds != kinds:
            raise ValueError(
                "out: keep, track and keep_gradients must be those with which the run began: it "
                f"has {', '.join(k.origin for k in self.kinds)}"
            )

    def write_chunk(self, number: int) -> None:
        """Write the chunk of each array, and remember to see them to the disk."""
        self.lock.check()
        layout.coordinate(self.folder, self.kinds, self.chains, self.length, number)
        for kind, buffer in zip(self.kinds, self.buffers):
            path = self.folder / kind.file(number)
            path.parent.mkdir(exist_ok=True, parents=True)
            put(path, [buffer], sync=False)
            self.unsynced.append(path)

    def done(self, sampler: Sampler) -> None:
        """Commit if it is time. The draws that were added are those up to the sampler's state."""
        if time.monotonic() - self.last >= self.flush:
            self.commit(sampler)

    def end(self, sampler: Sampler, complete: bool = True) -> None:
        """Commit at the end of a run, or where it stopped if it came further."""
        if complete or sampler.state.iteration > self.iteration:
            self.commit(sampler, complete)

    @property
    def is_empty(self) -> bool:
        """Whether not even the names of what is stored are known."""
        return not self.kinds

    def forget_after(self, count: int) -> None:
        """Count no more than so many draws of this run."""
        self.count = min(self.count, self.run["base"] + count)

    def draws(self, sampler: Sampler, settings: dict[str, Any]) -> Draws:
        """Return the draws that are committed."""
        known = record.read(self.folder) or {
            "chains": sampler.n_chains,
            "draws": 0,
            "chunk": 1,
            "arrays": [record.described(k) for k in self.kinds],
            "settings": json.loads(json.dumps(settings, default=record.plain)),
        }
        found = opened(self.folder, known)
        found._origin = Origin.of(sampler)
        return found

    def commit(self, sampler: Sampler, complete: bool = False) -> None:
        """Bring everything to the disk, and say in the record that it is there."""
        state, run = sampler.state, self.run
        since = state.iteration - run["origin"] - run["burn_in"]
        draws = min(self.count, run["base"] + max(0, since // run["thin"]))
        with self.told():
            self.lock.check()
            if self.kinds and draws % self.length:
                self.write_chunk(draws // self.length)
            for path in self.unsynced:
                sync(path)
            for folder in dict.fromkeys(path.parent for path in self.unsynced):
                sync(folder)
            self.unsynced = []
            if self.start is None:
                self.start = nests.save(self.folder / START, start_of(sampler))
            saved = nests.save(self.folder / STATE.format(state.iteration), tuple(state))
            settings = {**sampler.settings, **self.settings}
            attributes = {"inference_library": "sgmcmc", "draws": draws}
            found = layout.metadata(self.kinds, self.chains, draws, self.length, attributes)
            layout.put_metadata(self.folder, found)
            content = {
                "draws": draws,
                "iteration": state.iteration,
                "complete": complete,
                "chains": sampler.n_chains,
                "chunk": self.length,
                "arrays": [record.described(k) for k in self.kinds],
                "identity": self.identity,
                "settings": settings,
                "run": run,
                "start": self.start,
                "state": saved,
            }
            record.write(self.folder, content)
        if self.old_state not in (None, saved["file"]):
            with contextlib.suppress(OSError):
                (self.folder / self.old_state).unlink()
        self.old_state, self.committed, self.last = saved["file"], draws, time.monotonic()
        self.iteration = state.iteration

    @contextlib.contextmanager
    def told(self) -> Any:
        """Say which folder it is about if the disk does not take what is written."""
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, self.not_written(error)) from error

    def not_written(self, error: OSError) -> str:
        """Return the message for a disk that does not take the draws."""
        said = f"out: the draws cannot be written to {str(self.folder)!r}: {error.strerror}. "
        if error.errno in NO_ROOM:
            each = sum(math.prod(k.shape) * k.dtype.itemsize for k in self.kinds) * self.chains
            free = shutil.disk_usage(self.folder).free if self.folder.exists() else 0
            said += (
                f"1,000 draws take {each / 1e3:,.1f} MB, and {free / 1e6:,.1f} MB are free there: "
                "free more, or give a folder on another disk, or keep less (keep, thin). "
            )
        if error.errno == errno.ENOENT:
            return f"{said}The draws that were there are lost"
        return f"{said}{self.committed:,} draws are safe there, and resume=True goes on after them"

    def close(self) -> None:
        """Let other processes write."""
        self.lock.release()


def by_kind(draws: Mapping[str, Any]) -> dict[Kind, np.ndarray]:
    """The arrays that a collector gets, (draws, chains, ...), by group and name."""
    rest = dict(draws)
    values = {**rest.pop("params", {}), **rest.pop("track", {})}
    rest |= {f"log_{name}": x for name, x in rest.pop("log", {}).items()}
    return named(values, rest)


def named(values: Mapping[str, Any], stats: Mapping[str, Any]) -> dict[Kind, np.ndarray]:
    """Arrays with two leading axes, with the groups and names that `Draws.to_arviz` gives them."""
    found = {}
    for group, nest, other in zip(layout.GROUPS, (dict(values), dict(stats)), ({}, RENAMED)):
        for origin, (name, x) in zip(tree.names(nest), by_dotted_name(nest, other).items()):
            x = np.asarray(x)
            found[Kind(group, name, tuple(x.shape[2:]), x.dtype, origin)] = x
    return found


def start_of(sampler: Sampler) -> dict[str, Any]:
    """What was found before the first iteration, and must not be searched for again."""
    affine, dynamics = sampler.engine.model.chart.affine, sampler.engine.dynamics
    schedule = sampler.feeder.schedule
    if sampler.engine.tempered:
        schedule = schedule[:-1]
    return {
        "affine": None if affine is None else (list(affine.names), *affine.tensors),
        "alpha": getattr(dynamics, "alpha", None) if "tuning" in sampler.settings else None,
        "stepsizes": None if any(map(callable, schedule)) else [np.asarray(h) for h in schedule],
    }


def save(sampler: Sampler, path: Any) -> None:
    """Write where the chains of a sampler stand, without draws."""
    folder = checks.store("path", path)
    if folder is None:
        raise TypeError("path must be that of a folder, not None")
    known = record.read(folder)
    if known is not None:
        if known["draws"] or known["identity"] is None:
            raise ValueError(
                f"path: {str(folder)!r} has draws, which a checkpoint would replace: give another "
                "path, or write draws by run(..., out=)"
            )
        identity.check(known["identity"], sampler.identity(), str(folder))
    run = {"origin": sampler.state.iteration, "base": 0, "n_iters": 0, "burn_in": 0, "thin": 1}
    store = Store(folder, sampler, sampler.settings, run, np.inf, known)
    try:
        store.commit(sampler)
    finally:
        store.close()


def save_draws(draws: Draws, path: Any) -> None:
    """Write draws from memory to a new store."""
    folder = checks.store("path", path)
    if folder is None or record.read(folder) is not None:
        raise ValueError(f"path must be a new or an empty folder, not {path!r}, which has draws")
    chained = draws.settings.get("n_chains") is not None

    def with_chains(nest: Any) -> Any:
        return nest if chained else tree.map(lambda x: np.asarray(x)[None], nest)

    arrays = named(with_chains(dict(draws)), with_chains(draws.stats))
    if not arrays:
        raise ValueError("there are no draws to save")
    chains, count = next(iter(arrays.values())).shape[:2]
    kinds = list(arrays)
    length = layout.chunk_length(kinds, chains)
    folder.mkdir(parents=True, exist_ok=True)
    lock = Lock(folder)
    try:
        for number in range(-(-count // length)):
            layout.coordinate(folder, kinds, chains, length, number)
            for kind, x in arrays.items():
                chunk = np.zeros(kind.chunk(chains, length), kind.dtype)
                part = x[:, number * length : (number + 1) * length]
                chunk[:, : part.shape[1]] = part
                (folder / kind.path).mkdir(parents=True, exist_ok=True)
                put(folder / kind.file(number), [chunk])
        attributes = {"inference_library": "sgmcmc", "draws": count}
        found = layout.metadata(kinds, chains, count, length, attributes)
        layout.put_metadata(folder, found)
        content = {
            **{"draws": count, "iteration": None, "complete": True, "run": None},
            **{"chains": chains if chained else None, "chunk": length},
            "arrays": [record.described(k) for k in kinds],
            **{"identity": None, "settings": draws.settings, "start": None, "state": None},
        }
        record.write(folder, content)
    finally:
        lock.release()
