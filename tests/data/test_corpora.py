"""`prepare`: every corpus as aligned text on disk, made once, and made again when it must be."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

import translate.data
from translate.config import DataConfig
from translate.data import corpora
from translate.data.corpora import prepare, prepared, table
from translate.data.download import Source
from translate.data.lines import read_lines, write_lines
from translate.errors import UserError

PAIRS = {"train": 4, "val": 2, "test_2016_flickr": 3, "test_2017_flickr": 1}
Files = dict[str, list[str]]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def few_pairs_are_no_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "PUBLISHED_PAIRS", {})


def multi30k() -> Files:
    return {f"{name}.{language}": [f"{language} {name} {n}" for n in range(pairs)]
            for name, pairs in PAIRS.items() for language in ("de", "en")}


def write(folder: Path, files: Files, zipped: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        data = "".join(line + "\n" for line in lines).encode()
        (folder / (name + ".gz" * zipped)).write_bytes(gzip.compress(data) if zipped else data)
    return folder


def own_files(folder: Path, **changed: list[str]) -> DataConfig:
    """A config for corpus: files, with files of two pairs a split."""
    files = {f"{name}.{language}": [f"{language} {name}", "x"]
             for name in ("train", "dev", "test") for language in ("de", "en")}
    files |= {name.replace("_", "."): lines for name, lines in changed.items()}
    write(folder, files)
    pairs = {split: (folder / f"{name}.de", folder / f"{name}.en")
             for split, name in (("train", "train"), ("validation", "dev"), ("test", "test"))}
    return DataConfig(corpus="files", **pairs)


# --- Each corpus --------------------------------------------------------------------------------

@pytest.mark.parametrize("zipped", [False, True])
def test_multi30k_comes_from_a_folder_gzipped_or_not(
        tmp_path: Path, base: Path, zipped: bool, capsys: pytest.CaptureFixture[str]) -> None:
    files = multi30k()
    root = write(tmp_path / "multi30k", files, zipped)
    corpus = prepare(DataConfig(corpus="multi30k", root=root), base)
    assert (corpus.name, corpus.folder) == ("multi30k", base / "multi30k")
    assert list(corpus.test) == ["test_2016_flickr", "test_2017_flickr"]  # mscoco is not there
    found = {"train": corpus.train, "val": corpus.validation, **corpus.test}
    for name, pair in found.items():
        for language, path in zip(("de", "en"), pair, strict=True):
            assert path.parent == base / "multi30k"
            assert read_lines(path) == files[f"{name}.{language}"]
    ending = ".gz" if zipped else ""
    row = f"train.de{ending}, train.en{ending}"
    assert capsys.readouterr().out.splitlines()[1].split("  ")[-1] == "-"
    assert row in table(corpus.folder)


def test_multi30k_without_a_main_file_is_an_error_that_names_it(tmp_path: Path, base: Path) -> None:
    root = write(tmp_path / "multi30k", multi30k())
    (root / "val.en").unlink()
    with pytest.raises(UserError, match=r"multi30k: there is neither val.en nor val.en.gz"):
        prepare(DataConfig(corpus="multi30k", root=root), base)


def test_another_number_of_pairs_than_published_is_a_warning(
        tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    published = {"multi30k": {"train": 29_000, "validation": 2, "test sets": 5}}
    monkeypatch.setattr(corpora, "PUBLISHED_PAIRS", published)
    root = write(tmp_path / "multi30k", multi30k())
    corpus = prepare(DataConfig(corpus="multi30k", root=root), base)
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "warning: multi30k: train has 4 pairs; 29,000 are published",
        "warning: multi30k: test sets has 4 pairs; 5 are published"]
    assert "note: multi30k: train has 4 pairs; 29,000 are published" in table(corpus.folder)


def test_own_files_are_cleaned_and_only_training_loses_pairs(
        tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = own_files(tmp_path, train_de=["a\u2028b", "", "c\u00a0 d", "e"],
                     train_en=["A &amp; B", "x", "C", " \u00ad"], test_en=["", "&quot;"])
    corpus = prepare(data, base)
    assert corpus.folder.name.startswith("files-") and corpus.folder.parent == base
    assert [read_lines(path) for path in corpus.train] == [["a b", "c d"], ["A & B", "C"]]
    assert list(corpus.test) == ["test"]
    assert [read_lines(path) for path in corpus.test["test"]] == [["de test", "x"], ["", '"']]
    assert capsys.readouterr().out.splitlines() == [
        "split       source              pairs  dropped",
        "train       train.de, train.en      2  2 empty on a side",
        "validation  dev.de, dev.en          2  -",
        "test        test.de, test.en        2  -"]


def test_own_files_at_other_paths_are_another_corpus(tmp_path: Path, base: Path) -> None:
    first = prepare(own_files(tmp_path / "a"), base)
    second = prepare(own_files(tmp_path / "b"), base)
    assert first.folder != second.folder
    assert prepared(own_files(tmp_path / "b"), base) is None  # written anew: other times


def test_unequal_sides_are_an_error_with_both_counts(tmp_path: Path, base: Path) -> None:
    data = own_files(tmp_path, test_de=["eins", "zwei", "drei"])
    with pytest.raises(UserError, match=r"test.de, test.en: 3 German lines but 2 English lines"):
        prepare(data, base)


def test_no_usable_training_pair_is_an_error(tmp_path: Path, base: Path) -> None:
    with pytest.raises(UserError, match=r"train.de, train.en: no training pair"):
        prepare(own_files(tmp_path, train_de=["", ""]), base)


def shifted_files(folder: Path) -> DataConfig:
    """Own files that are off by one in lines 31-60, in training and test."""
    lines = ["x" * (1 + 37 * n % 101) for n in range(90)]
    slipped = [*lines[:30], lines[30][:40], lines[30][40:], *lines[31:58],
               f"{lines[58]} {lines[59]}", *lines[60:]]
    return own_files(folder, train_de=slipped, train_en=lines, test_de=slipped, test_en=lines)


def test_shifted_lines_of_a_test_set_are_a_warning_and_a_note(
        tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = prepare(shifted_files(tmp_path), base)
    warning, = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: test.de, test.en: lines 31-60 (30 pairs) look shifted: ")
    assert warning.replace("warning", "note", 1) in table(corpus.folder)
    for name, language in zip(corpus.test["test"], ("de", "en"), strict=True):
        assert read_lines(name) == read_lines(tmp_path / f"test.{language}")


def test_a_repaired_corpus_lies_beside_the_other_and_its_sets_are_named_so(
        tmp_path: Path, base: Path) -> None:
    data = shifted_files(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.glob("*.??")}
    official = prepare(data, base)
    repaired = prepare(data.model_copy(update={"repair": True}), base)
    assert repaired.folder == base / f"{official.folder.name}-repaired"
    assert list(repaired.test) == ["test-repaired"]
    assert read_lines(repaired.train[0]) == read_lines(official.train[0])
    sides = [read_lines(path) for path in repaired.test["test-repaired"]]
    assert len(sides[0]) == 89 and sides[0][31:58] == sides[1][31:58]
    rows = table(repaired.folder).splitlines()
    assert rows[3].startswith("test-repaired  test.de, test.en ")
    assert rows[3].endswith(" 89  1 joined to a neighbour")
    assert rows[4].startswith("note: test.de, test.en: realigned lines 31-60, 30 pairs to 29 ")
    assert json.loads((repaired.folder / "corpus.json").read_text())["settings"]["repair"]
    assert prepared(data, base) == official
    assert prepared(data.model_copy(update={"repair": True}), base) == repaired
    assert before == {path: path.read_bytes() for path in before}


def test_repair_reaches_the_sets_of_a_release(tmp_path: Path, base: Path) -> None:
    shifted_files(tmp_path)
    files = {}
    for side in ("de", "en"):
        segments = [f'<seg id="{n}">{line}</seg>'
                    for n, line in enumerate(read_lines(tmp_path / f"test.{side}"), start=1)]
        files[f"train.tags.de-en.{side}"] = ["<talkid>1</talkid>", side]
        for name in ("dev2010", "tst2010"):
            files[f"IWSLT16.TED.{name}.de-en.{side}.xml"] = ['<doc docid="1">', *segments, "</doc>"]
    root = write(tmp_path / "release", files)
    corpus = prepare(DataConfig(corpus="iwslt2016", root=root, repair=True), base)
    assert corpus.validation[0].name == "validation-repaired.de"
    assert list(corpus.test) == ["tst2010-repaired"]


def test_a_repaired_set_has_the_published_number_of_pairs(
        tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(corpora, "PUBLISHED_PAIRS", {"multi30k": {"validation": 90}})
    shifted_files(tmp_path)
    files = multi30k() | {f"val.{side}": read_lines(tmp_path / f"test.{side}")
                          for side in ("de", "en")}
    root = write(tmp_path / "multi30k", files)
    corpus = prepare(DataConfig(corpus="multi30k", root=root, repair=True), base)
    assert corpus.validation[0] == base / "multi30k-repaired" / "validation-repaired.de"
    assert "published" not in capsys.readouterr().err


def iwslt(path: Path, year: str = "14", pairs: int = 50) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        def add(name: str, text: str) -> None:
            member = tarfile.TarInfo(f"de-en/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))

        tests = [f"TED.tst{n}" for n in range(2010, 2016)]
        for side in ("de", "en"):
            sentences = "".join(f"{side} {n}\n" for n in range(pairs))
            add(f"train.tags.de-en.{side}", f"<talkid>1</talkid>\n{sentences}"
                                            f"<talkid>2</talkid>\n{side}\n{side * (side == 'de')}")
            for name in ("TED.dev2010", *tests):
                add(f"IWSLT{year}.{name}.de-en.{side}.xml",
                    f'<doc docid="1"><seg id="1">{side} {name}</seg></doc>')
    return path


def test_the_split_rules_of_iwslt2014_lie_side_by_side(
        tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = iwslt(tmp_path / "de-en.tgz")
    official = prepare(DataConfig(corpus="iwslt2014", root=root), base)
    assert official.folder == base / "iwslt2014"
    assert list(official.test) == ["tst2010", "tst2011", "tst2012"]
    captured = capsys.readouterr()
    assert "2 in talks that do not align" in captured.out.splitlines()[1]
    note = "talk 2 dropped: 2 German and 1 English sentences"
    assert captured.err == f"warning: {note}\n" and captured.out.endswith(f"note: {note}\n")

    fairseq = prepare(DataConfig(corpus="iwslt2014", root=root, split_rule="fairseq"), base)
    assert fairseq.folder == base / "iwslt2014-fairseq"
    assert list(fairseq.test) == ["test"]
    assert [read_lines(path) for path in fairseq.validation] == [
        ["de 22", "de 45"], ["en 22", "en 45"]]
    assert prepared(DataConfig(corpus="iwslt2014", root=root), base) == official


def test_the_sample_is_generated(
        base: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = []

    def generate(folder: Path) -> dict[str, int]:
        made.append(folder)
        for name in ("train", "validation", "test"):
            for ending in ("de", "en", "jsonl"):
                write_lines(folder / f"{name}.{ending}", [f"{ending} {name}"])
        return {"train": 1, "validation": 1, "test": 1}

    fake = ModuleType("translate.data.sample")
    fake.generate = generate
    fake.LEXICON = write(tmp_path / "lexicon", {"nouns.yaml": ["Hund"]})
    fake.__file__ = str(tmp_path / "sample.py")
    write_lines(tmp_path / "sample.py", ["the grammar"])
    monkeypatch.setitem(sys.modules, "translate.data.sample", fake)
    monkeypatch.setattr(translate.data, "sample", fake, raising=False)
    data = DataConfig(corpus="sample")
    corpus = prepare(data, base)
    assert corpus.folder == base / "sample" and list(corpus.test) == ["test"]
    assert prepare(data, base) == corpus and made == [base / "sample"]
    (base / "sample" / "test.jsonl").unlink()
    prepare(data, base)
    write_lines(tmp_path / "sample.py", ["another grammar"])
    prepare(data, base)
    write_lines(tmp_path / "lexicon" / "nouns.yaml", ["Hund", "Katze"])
    prepare(data, base)
    assert len(made) == 4


# --- Downloads ----------------------------------------------------------------------------------

@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served at the addresses of the corpora."""
    monkeypatch.setenv("no_proxy", "*")

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    folder = tmp_path / "web"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(corpora, "MULTI30K_URL", url)
    monkeypatch.setattr(corpora, "IWSLT_SOURCES", {
        "iwslt2014": [Source(f"{url}/de-en.tgz", md5="0" * 32, strict=False)],
        "iwslt2017": [Source(f"{url}/gone.tgz"), Source(f"{url}/de-en.tgz")]})
    yield folder
    server.shutdown()
    server.server_close()


def test_multi30k_is_downloaded_once_and_does_without_the_later_tests(
        web: Path, base: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    files = multi30k()
    write(web, files, zipped=True)
    (web / "test_2017_flickr.en.gz").write_bytes(b"<html>")
    monkeypatch.setattr(corpora, "MULTI30K_SHA256", {
        name: hashlib.sha256((web / name).read_bytes()).hexdigest()
        for name in corpora.MULTI30K_SHA256})
    corpus = prepare(DataConfig(corpus="multi30k"), base)
    assert list(corpus.test) == ["test_2016_flickr"]
    assert [read_lines(path) for path in corpus.train] == [files["train.de"], files["train.en"]]
    assert (base / "downloads" / "multi30k" / "train.de.gz").exists()
    warnings = capsys.readouterr().err
    assert "going on without test_2017_flickr" in warnings and "an HTML page" in warnings
    assert "going on without test_2017_mscoco" in warnings and "HTTP 404" in warnings

    for path in web.iterdir():
        path.unlink()
    (corpus.folder / "corpus.json").unlink()
    assert prepare(DataConfig(corpus="multi30k"), base) == corpus  # from the kept downloads


def test_a_wrong_checksum_of_multi30k_says_what_to_do(web: Path, base: Path) -> None:
    write(web, multi30k(), zipped=True)
    with pytest.raises(UserError) as raised:
        prepare(DataConfig(corpus="multi30k"), base)
    message = str(raised.value)
    assert "wrong sha256" in message and "data.root" in message
    assert f"put it at {base / 'downloads' / 'multi30k' / 'train.de.gz'}" in message


def test_iwslt_is_downloaded_from_the_first_source_that_has_it(
        web: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    iwslt(web / "de-en.tgz", "17")
    corpus = prepare(DataConfig(corpus="iwslt2017"), base)
    assert list(corpus.test) == [f"tst{year}" for year in range(2010, 2016)]
    iwslt(web / "de-en.tgz", "14")
    prepare(DataConfig(corpus="iwslt2014"), base)
    assert "wrong md5" in capsys.readouterr().err  # a warning: that checksum is a third party's


# --- Made once, and again -----------------------------------------------------------------------

def test_a_prepared_corpus_is_used_at_once_and_in_silence(
        tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = own_files(tmp_path)
    corpus = prepare(data, base)
    times = {path: path.stat().st_mtime_ns for path in corpus.folder.iterdir()}
    capsys.readouterr()
    start = time.perf_counter()
    assert prepare(data, base) == corpus
    assert time.perf_counter() - start < 0.05
    assert capsys.readouterr() == ("", "")
    assert times == {path: path.stat().st_mtime_ns for path in corpus.folder.iterdir()}


def test_an_edited_input_is_noticed(
        tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = own_files(tmp_path)
    corpus = prepare(data, base)
    write_lines(tmp_path / "train.de", ["neu", "x"])
    os.utime(tmp_path / "train.de", ns=(0, 0))  # as a copy with an older time would have it
    assert prepare(data, base) == corpus
    assert "train.de has changed since it was made; making it again" in capsys.readouterr().out
    assert read_lines(corpus.train[0]) == ["neu", "x"]


def test_an_input_that_is_gone_does_not_matter_once_the_corpus_is_made(
        tmp_path: Path, base: Path) -> None:
    data = own_files(tmp_path)
    corpus = prepare(data, base)
    (tmp_path / "train.de").unlink()
    assert prepare(data, base) == corpus


def test_other_settings_make_it_again_and_leave_nothing_of_the_former(
        tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tmp_path / "first", multi30k())
    second = write(tmp_path / "second", {name: lines for name, lines in multi30k().items()
                                         if "2017" not in name})
    corpus = prepare(DataConfig(corpus="multi30k", root=first), base)
    (corpus.folder / "mine.txt").touch()
    again = prepare(DataConfig(corpus="multi30k", root=second), base)
    assert f"it was made with root {first}, not {second}" in capsys.readouterr().out
    assert list(again.test) == ["test_2016_flickr"]
    assert not (again.folder / "test_2017_flickr.de").exists()
    assert (again.folder / "mine.txt").exists()


@pytest.mark.parametrize("damage", ["gone", "not JSON", "of an older version"])
def test_missing_files_and_a_damaged_manifest_are_made_again(
        tmp_path: Path, base: Path, damage: str) -> None:
    data = own_files(tmp_path)
    corpus = prepare(data, base)
    manifest = corpus.folder / "corpus.json"
    if damage == "gone":
        corpus.validation[1].unlink()
    elif damage == "not JSON":
        manifest.write_text("{", encoding="utf-8")
    else:
        manifest.write_text(json.dumps({"settings": {"version": 0}, "files": []}))
    assert prepared(data, base) is None
    assert prepare(data, base) == corpus
    assert corpus.validation[1].exists() and prepared(data, base) == corpus


def test_a_failure_leaves_what_had_been_made(tmp_path: Path, base: Path) -> None:
    root = write(tmp_path / "multi30k", multi30k())
    corpus = prepare(DataConfig(corpus="multi30k", root=root), base)
    before = {path: path.read_bytes() for path in corpus.folder.iterdir()}
    with pytest.raises(UserError):
        prepare(DataConfig(corpus="multi30k", root=tmp_path / "absent"), base)
    assert before == {path: path.read_bytes() for path in corpus.folder.iterdir()}
    assert prepare(DataConfig(corpus="multi30k", root=root), base) == corpus


def test_the_files_a_corpus_is_made_from_are_never_overwritten(tmp_path: Path, base: Path) -> None:
    base.mkdir()
    root = write(base / "multi30k", multi30k())
    before = {path: path.read_bytes() for path in root.iterdir()}
    with pytest.raises(UserError, match=r"would be overwritten"):
        prepare(DataConfig(corpus="multi30k", root=root), base)
    assert before == {path: path.read_bytes() for path in root.iterdir()}


def test_an_archive_may_lie_where_its_corpus_is_prepared(tmp_path: Path, base: Path) -> None:
    (base / "iwslt2014").mkdir(parents=True)
    archive = iwslt(base / "iwslt2014" / "de-en.tgz")
    for root in (archive, archive.parent):  # the folder changes when the corpus is written there
        data = DataConfig(corpus="iwslt2014", root=root)
        assert prepare(data, base) == prepared(data, base)
    assert archive.exists()


def test_own_files_may_be_links_to_files_of_other_names(tmp_path: Path, base: Path) -> None:
    files = own_files(tmp_path)
    (tmp_path / "blob").write_bytes(gzip.compress(b"eins\nzwei\n"))
    (tmp_path / "linked.de.gz").symlink_to("blob")
    pair = (tmp_path / "linked.de.gz", tmp_path / "train.en")
    data = DataConfig(corpus="files", train=pair, validation=files.validation, test=files.test)
    assert read_lines(prepare(data, base).train[0]) == ["eins", "zwei"]
    (tmp_path / "blob").write_bytes(gzip.compress(b"drei\nvier\n"))
    assert prepared(data, base) is None


def test_a_crash_while_writing_is_no_prepared_corpus(
        tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = own_files(tmp_path)
    corpus = prepare(data, base)
    write_lines(tmp_path / "train.de", ["neu", "neu"])
    with monkeypatch.context() as patch:
        def crash(path: Path, lines: list[str]) -> None:
            raise OSError(28, "No space left on device", str(path))

        patch.setattr(corpora, "write_lines", crash)
        with pytest.raises(UserError, match=r"train.de: No space left on device"):
            prepare(data, base)
    assert prepared(data, base) is None
    assert prepare(data, base) == corpus and read_lines(corpus.train[0]) == ["neu", "neu"]


def test_the_command_prints_the_table_each_time_and_tells_a_mistake(tmp_path: Path) -> None:
    own_files(tmp_path)
    config = ["name: mine", "data:", "  corpus: files", "  train: [train.de, train.en]",
              "  validation: [dev.de, dev.en]", "  test: [test.de, test.en]"]
    write_lines(tmp_path / "mine.yaml", config)

    def command(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "translate.prepare", "--config", "mine.yaml", *more],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True, text=True, encoding="utf-8")

    first, second = command(), command()
    assert first.returncode == second.returncode == 0
    assert first.stdout in second.stdout and "prepared already" in second.stdout
    assert first.stdout.startswith("split") and not first.stderr
    repair = command("--repair")
    assert "nothing is repaired" in repair.stdout and repair.returncode == 0
    shifted_files(tmp_path)
    repair = command("--repair")
    assert "realigned lines 31-60" in repair.stderr and "realigned lines 31-60" in repair.stdout
    assert "use the repaired sets with --set data.repair=true" in repair.stdout
    wrong = command("--set", "data.train=[absent.de, train.en]")
    assert wrong.returncode == 2 and not wrong.stdout
    assert wrong.stderr == f"error: {tmp_path / 'absent.de'}: cannot read it: " \
                           f"No such file or directory\n"
