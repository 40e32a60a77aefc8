"""A tiny corpus, encoded once, and runs of a tiny model on it in a folder of their own."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from translate.config import Config
from translate.data.corpora import prepare
from translate.data.encoding import EncodedCorpus, encode
from translate.data.lines import read_lines
from translate.runs import open_run
from translate.training.trainer import Trainer
from translate.training.validation import ParallelText

NOUNS = [("Hund", "dog"), ("Bär", "bear"), ("Wolf", "wolf"), ("Fuchs", "fox"), ("Igel", "hedgehog")]
VERBS = [("sieht", "sees"), ("hört", "hears"), ("kennt", "knows")]
MODEL = {"d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 32,
         "dropout": 0.2}

Start = Callable[..., Trainer]


def sentence(choose: random.Random) -> tuple[str, str]:
    (one, one_en), (two, two_en), (verb, verb_en) = (
        choose.choice(words) for words in (NOUNS, NOUNS, VERBS))
    often = choose.randrange(4)
    return (f"Der {one} {verb} den {'sehr ' * often}{'klugen ' * (often > 0)}{two}.",
            f"The {one_en} {verb_en} the {'very ' * often}{'clever ' * (often > 0)}{two_en}.")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Sixty training pairs (eleven batches), six for validation, four for the test."""
    folder = tmp_path_factory.mktemp("corpus")
    choose = random.Random(1)
    for split, count in (("train", 60), ("validation", 6), ("test", 4)):
        pairs = [sentence(choose) for _ in range(count)]
        for language, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    return {split: [str(folder / f"{split}.de"), str(folder / f"{split}.en")]
            for split in ("train", "validation", "test")}


@pytest.fixture(scope="session")
def configure(files: dict[str, list[str]]) -> Callable[..., Config]:
    """A config on the tiny corpus; `training` and `model` change some of its settings."""

    def make(training: dict[str, Any] | None = None, model: dict[str, Any] | None = None,
             **top: Any) -> Config:
        return Config.model_validate({
            "name": "tiny", "device": "cpu", "model": MODEL | (model or {}),
            "data": {"corpus": "files", "max_length": 20, **files}, "text": {"min_freq": 1},
            "training": {"batch_tokens": 56, "warmup": 20, "epochs": 2} | (training or {}),
            "decoding": {"max_length_factor": 1, "max_length_extra": 3}} | top)

    return make


@pytest.fixture(scope="session")
def encoded(configure: Callable[..., Config],
            tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    config = configure()
    return encode(config, prepare(config.data, tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="session")
def text(files: dict[str, list[str]]) -> ParallelText:
    return ParallelText(*(read_lines(Path(path)) for path in files["validation"]))


@pytest.fixture
def start(configure: Callable[..., Config], encoded: EncodedCorpus, text: ParallelText,
          tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """What `translate.train` does: opens the run of a config, and gives its trainer."""
    monkeypatch.chdir(tmp_path)
    trainers: list[Trainer] = []

    def trainer(training: dict[str, Any] | None = None, model: dict[str, Any] | None = None,
                fresh: bool = False, **top: Any) -> Trainer:
        config = configure(training, model, **top)
        run = open_run(config, fresh)
        shutil.copytree(encoded.text_folder, run.text, dirs_exist_ok=True)
        trainers.append(Trainer(config, encoded, text, run))
        return trainers[-1]

    yield trainer
    for one in trainers:
        one.monitor.close()
