"""Files of tensors and of JSON: what is read is what was written, or an error names the file."""

import json
import pickle
from pathlib import Path

import pytest
import torch

from translate import storage
from translate.errors import UserError
from translate.storage import read_state, read_tensors, write_state, write_tensors

TENSORS = {"weight": torch.arange(12.0).view(3, 4), "step": torch.tensor(7),
           "half": torch.ones(5, dtype=torch.bfloat16), "none": torch.zeros(0, 3)}
STATE = {"progress": {"update": 3, "best": 1.5, "validations": [{"loss": 2.25}]}, "scaler": {}}


@pytest.fixture
def tensors(tmp_path: Path) -> Path:
    write_tensors(TENSORS, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    write_state(STATE, tmp_path / "state.json")
    return tmp_path / "state.json"


def test_tensors_come_back_as_they_were(tensors: Path) -> None:
    read = read_tensors(tensors)
    assert read.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert read[name].dtype == tensor.dtype and torch.equal(read[name], tensor)


def test_a_state_comes_back_as_it_was(state: Path) -> None:
    assert read_state(state) == STATE


@pytest.mark.parametrize("kind", ["tensors", "state"])
def test_any_bit_that_flips_is_noticed(kind: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(kind)
    read, good, data = (read_tensors, TENSORS, path.read_bytes()) if kind == "tensors" else (
        read_state, STATE, path.read_bytes())
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1:])
        try:
            found = read(path)  # type: ignore[operator]
        except UserError as error:
            assert str(path) in str(error)
        else:  # it was in white space, or in what says that there is a checksum
            assert found.keys() == good.keys()
            for name in found if kind == "tensors" else ():
                assert torch.equal(found[name], TENSORS[name])
            assert kind == "tensors" or found == good


@pytest.mark.parametrize("kind", ["tensors", "state"])
def test_a_file_cut_short_anywhere_is_refused(kind: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(kind)
    data = path.read_bytes()
    for length in range(len(data.rstrip())):
        path.write_bytes(data[:length])
        with pytest.raises(UserError, match=str(path)):
            (read_tensors if kind == "tensors" else read_state)(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for read in (read_tensors, read_state):
        with pytest.raises(UserError, match=rf"{tmp_path}/x\.y: cannot read"):
            read(tmp_path / "x.y")  # type: ignore[operator]


def test_a_file_of_a_later_version_is_refused_with_its_version(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "VERSION", 7)
    write_tensors(TENSORS, tmp_path / "a")
    write_state(STATE, tmp_path / "b")
    monkeypatch.undo()
    for path, read in ((tmp_path / "a", read_tensors), (tmp_path / "b", read_state)):
        with pytest.raises(UserError, match=f"{path}: its version is 7, and this program knows 1"):
            read(path)  # type: ignore[operator]


def test_weights_that_another_program_wrote_can_be_read(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2)}, tmp_path / "a")
    assert torch.equal(read_tensors(tmp_path / "a")["a"], torch.ones(2))


def test_a_pickle_in_the_place_of_tensors_or_state_is_refused_and_not_run(tmp_path: Path) -> None:
    class Malicious:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return Path.write_text, (tmp_path / "ran", "")  # type: ignore[return-value]

    (tmp_path / "a").write_bytes(pickle.dumps(Malicious()))
    torch.save({"x": Malicious()}, tmp_path / "b")
    for name in "ab":
        for read in (read_tensors, read_state):
            with pytest.raises(UserError):
                read(tmp_path / name)  # type: ignore[operator]
    assert not (tmp_path / "ran").exists()


def test_what_cannot_be_written_leaves_the_file_before_it(tensors: Path) -> None:
    before = tensors.read_bytes()
    (tensors.parent / "model.safetensors.partial").mkdir()  # in the way
    with pytest.raises(UserError, match=rf"{tensors}: cannot write it: .*directory"):
        write_tensors({"other": torch.ones(3)}, tensors)
    assert tensors.read_bytes() == before


def test_a_state_is_json_that_people_can_read(state: Path) -> None:
    written = json.loads(state.read_text("utf-8"))
    assert written["version"] == 1 and written["progress"] == STATE["progress"]
