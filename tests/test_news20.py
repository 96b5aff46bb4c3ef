"""The data set "20news", from small archives of the same layout, and from the real one."""

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import sgmcmc
from sgmcmc import data

TRAIN, TEST = "20news-bydate-train", "20news-bydate-test"


def message(body, subject="quux"):
    return f"From: someone@example.org\nSubject: {subject}\n\n{body}".encode("latin-1")


# Five training documents have `apple` and `bird`, four have `rare`. No body has `quux`.
MESSAGES = {
    f"{TRAIN}/sci.space/1": message("Apple apple BIRD rare\n\nbird, bird9bird an"),
    f"{TRAIN}/sci.space/2": message("apple/bird rare cafés"),
    f"{TRAIN}/sci.space/3": message("apple? bird! rare caf\xff"),
    f"{TRAIN}/alt.atheism/4": message("bird apple rare caf"),
    f"{TRAIN}/alt.atheism/5": message("my ox", subject="apple bird"),
    f"{TRAIN}/alt.atheism/6": message("apple's bird"),
    f"{TRAIN}/alt.atheism/7": b"apple bird without an empty line",
    f"{TEST}/sci.space/8": message("birds apple cherry apple"),
    f"{TEST}/sci.space/9": message("cherry cherry"),
    f"{TEST}/alt.atheism/10": message("bird"),
}


def tar(messages):
    """Return a tar archive of these messages, and of members that are no messages."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:

        def add(name, text=b"", kind=tarfile.REGTYPE, target=""):
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(text), kind, target
            archive.addfile(member, io.BytesIO(text))

        add(f"{TRAIN}/sci.space", kind=tarfile.DIRTYPE)
        for name, text in messages.items():
            add(name, text)
        other = message("other apple bird")
        for place in (
            f"{TRAIN}/readme",
            f"{TRAIN}/sci.space/old/1",
            f"/{TRAIN}/sci.space/1",
            f"../{TRAIN}/sci.space/1",
            "20news-bydate-other/sci.space/1",
        ):
            add(place, other)
        first = f"{TRAIN}/sci.space/1"
        add(f"{TRAIN}/sci.space/symbolic", kind=tarfile.SYMTYPE, target="1")
        add(f"{TRAIN}/sci.space/hard", kind=tarfile.LNKTYPE, target=first)
    return file.getvalue()


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Return a function that writes the archive, registers its hash, and returns its path."""
    path = tmp_path / "20news" / "20news-bydate.tar.gz"
    path.parent.mkdir()
    monkeypatch.setenv("SGMCMC_DATA_DIR", str(tmp_path))
    known = data.registry()

    def write(content, hashed=None):
        path.write_bytes(content)
        digest = hashlib.sha256(content if hashed is None else hashed).hexdigest()
        known["20news"]["files"][0]["sha256"] = digest
        monkeypatch.setattr(data, "registry", lambda: known)
        return path

    return write


def counted(part, vocab):
    """Return the counts of each document by word, and the labels."""
    assert (part["counts"].format, part["counts"].dtype) == ("csr", np.int32)
    assert part["y"].dtype == np.int32
    documents = [
        {str(word): int(n) for word, n in zip(vocab, row) if n} for row in part["counts"].toarray()
    ]
    return documents, part["y"].tolist()


def test_counts(archive):
    archive(gzip.compress(tar(MESSAGES)))
    train, test, vocab, groups = sgmcmc.get_dataset("20news").values()
    assert vocab.tolist() == ["apple", "bird"]
    assert len(groups) == 20
    space, atheism = groups.tolist().index("sci.space"), groups.tolist().index("alt.atheism")
    one = {"apple": 1, "bird": 1}
    documents = [{"apple": 2, "bird": 4}, one, one, one, one]  # 5 and 7 have no such words
    assert counted(train, vocab) == (documents, [space] * 3 + [atheism] * 2)
    assert counted(test, vocab) == ([{"apple": 2}, {"bird": 1}], [space, atheism])


def test_a_word_must_be_in_five_training_documents(archive):
    more = {
        f"{TRAIN}/rec.autos/11": message("rare rare caf"),
        f"{TEST}/rec.autos/12": message("caf"),
    }
    archive(gzip.compress(tar(MESSAGES | more)))
    train, test, vocab, _ = sgmcmc.get_dataset("20news").values()
    assert vocab.tolist() == ["apple", "bird", "rare"]
    assert train["counts"][5].toarray().ravel().tolist() == [0, 0, 2]
    assert train["counts"].shape == (6, 3)
    assert test["counts"].shape == (2, 3)


def test_only_some_groups(archive):
    more = {f"{TRAIN}/sci.space/{i}": message("apple orbit") for i in range(11, 16)}
    archive(gzip.compress(tar(MESSAGES | more)))
    train, test, vocab, groups = sgmcmc.get_dataset("20news", groups=["sci.space"]).values()
    assert groups.tolist() == ["sci.space"]
    assert vocab.tolist() == ["apple", "orbit"]  # three documents of this group have `bird`
    assert counted(train, vocab) == (
        [{"apple": 2}, {"apple": 1}, {"apple": 1}] + [{"apple": 1, "orbit": 1}] * 5,
        [0] * 8,
    )
    assert counted(test, vocab) == ([{"apple": 2}], [0])
    both = sgmcmc.get_dataset("20news", groups=("sci.space", "alt.atheism"))
    assert both["groups"].tolist() == ["alt.atheism", "sci.space"]
    assert both["train"]["y"].tolist() == [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]


def test_wrong_groups(tmp_path, monkeypatch):
    monkeypatch.setenv("SGMCMC_DATA_DIR", str(tmp_path))  # an empty folder
    with pytest.raises(ValueError, match="groups must be None for 'kos': it is for '20news' only"):
        sgmcmc.get_dataset("kos", groups=["sci.space"])
    with pytest.raises(ValueError, match=r"groups names 'sci.spce', .* \(did you mean 'sci.space'"):
        sgmcmc.get_dataset("20news", groups=["sci.med", "sci.spce"])
    with pytest.raises(ValueError, match=r"groups names 3, .*; the newsgroups are \['alt.atheism'"):
        sgmcmc.get_dataset("20news", groups=[3])
    with pytest.raises(ValueError, match="groups must have at least one newsgroup"):
        sgmcmc.get_dataset("20news", groups=[])
    with pytest.raises(TypeError, match=r"groups must be a list of names .*, not 'sci.space'"):
        sgmcmc.get_dataset("20news", groups="sci.space")
    with pytest.raises(FileNotFoundError, match=r"download https://ndownloader.* or http://qwone"):
        sgmcmc.get_dataset("20news", groups=["sci.space"])


@pytest.mark.parametrize("form", [bytes, gzip.compress])
def test_another_archive_is_refused(archive, form):
    path = archive(form(tar(MESSAGES)), b"the right one")
    says = r"holds other content .* with the sha256 [0-9a-f]{64}, not [0-9a-f]{64}: replace it by"
    with pytest.raises(ValueError, match=f"'{path}' {says}"):
        sgmcmc.get_dataset("20news")


def test_a_damaged_archive(archive):
    whole = gzip.compress(tar(MESSAGES))
    path = archive(whole[:-100], whole)
    with pytest.raises(ValueError, match=f"'{path}' is damaged .EOFError: .*: replace it by that"):
        sgmcmc.get_dataset("20news")


def test_without_scipy_an_error_says_what_to_install(archive, monkeypatch):
    archive(gzip.compress(tar(MESSAGES)))
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(ImportError, match=r"'20news' is a sparse array.*'sgmcmc\[data\]'"):
        sgmcmc.get_dataset("20news")


def test_the_real_archive(real_data, monkeypatch):
    if not (Path(real_data) / data.registry()["20news"]["files"][0]["path"]).is_file():
        pytest.skip(f"needs the archive of 20news, which is not in {real_data}")
    monkeypatch.setenv("SGMCMC_DATA_DIR", real_data)
    found = sgmcmc.get_dataset("20news")
    for part, n, smallest in (("train", 11_314, 377), ("test", 7_532, 251)):
        counts, y = found[part].values()
        assert 0.98 * n < len(y) <= n  # some documents have no words
        assert counts.shape == (len(y), len(found["vocab"]))
        assert counts.sum(axis=1).min() >= 1
        assert 0.95 * smallest < np.bincount(y, minlength=20).min() <= smallest
    in_documents = np.bincount(found["train"]["counts"].indices)
    assert in_documents.min() >= 5
    assert found["vocab"].tolist() == sorted(set(found["vocab"].tolist()))
