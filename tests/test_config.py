"""What a config accepts, and how it says what it does not accept."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from translate.config import Config, load_config, save_config
from translate.errors import UserError

CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.yaml"))


def write(folder: Path, **values: Any) -> Path:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({"name": "x", "data": {"corpus": "sample"}} | values),
                    encoding="utf-8")
    return path


def refusal(folder: Path, *overrides: str, **values: Any) -> str:
    with pytest.raises(UserError) as error:
        load_config(write(folder, **values), overrides)
    assert str(error.value).startswith(f"{folder / 'run.yaml'}: ")
    return str(error.value)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_config_loads(path: Path) -> None:
    load_config(path)


def test_configs_are_shipped() -> None:
    assert len(CONFIGS) >= 4


def test_the_defaults_of_the_model_are_the_papers_base_model(tmp_path: Path) -> None:
    model = load_config(write(tmp_path)).model
    assert (model.d_model, model.heads, model.encoder_layers, model.decoder_layers,
            model.d_ff, model.dropout) == (512, 8, 6, 6, 2048, 0.1)


@pytest.mark.parametrize(("key", "nearest"), [
    ("training.warmups", "warmup"), ("training.bach_tokens", "batch_tokens"),
    ("model.dmodel", "d_model"), ("text.subwords.sise", "size"), ("trainning", "training"),
    ("data.corpsu", "corpus"),
])
def test_an_unknown_key_is_answered_with_the_nearest_name(
        tmp_path: Path, key: str, nearest: str) -> None:
    message = refusal(tmp_path, f"{key}=1")
    assert f"unknown key {key}; did you mean {nearest}?" in message


def test_an_unknown_key_like_no_other_is_answered_with_all_names(tmp_path: Path) -> None:
    assert "unknown key text.qqq; known are: lowercase, min_freq, subwords" in refusal(
        tmp_path, "text.qqq=1")


@pytest.mark.parametrize(("override", "says"), [
    ("training.epochs=many", "training.epochs='many': input should be a valid integer"),
    ("training.epochs=2.5", "training.epochs=2.5: input should be a valid integer"),
    ("text.lowercase=maybe", "text.lowercase='maybe': input should be a valid boolean"),
    ("name=7", "name=7: input should be a valid string"),
    ("model=big", "model='big': input should be a valid dictionary"),
    ("data.root=[a, b]", "data.root=['a', 'b']: input is not a valid path"),
])
def test_a_value_of_the_wrong_type_is_named_with_its_key(
        tmp_path: Path, override: str, says: str) -> None:
    assert says in refusal(tmp_path, override)


@pytest.mark.parametrize(("override", "allowed"), [
    ("training.epochs=0", "greater than or equal to 1"),
    ("training.warmup=-4", "greater than or equal to 1"),
    ("training.factor=0", "greater than 0"),
    ("training.factor=.inf", "finite number"),
    ("training.clip_norm=.nan", "finite number"),
    ("training.label_smoothing=1", "less than 1"),
    ("training.adam_betas=[0.9, 1.0]", "less than 1"),
    ("model.dropout=-0.1", "greater than or equal to 0"),
    ("model.norm=middle", "'pre' or 'post'"),
    ("data.corpus=wmt14", "'iwslt2014'"),
    ("text.subwords.size=100", "greater than or equal to 300"),
    ("decoding.beam=0", "greater than or equal to 1"),
    ("seed=-1", "greater than or equal to 0"),
    ("device=gpu", "match pattern"),
    ("name=../elsewhere", "match pattern"),
])
def test_a_value_out_of_range_is_told_what_is_allowed(
        tmp_path: Path, override: str, allowed: str) -> None:
    message = refusal(tmp_path, override)
    assert override.partition("=")[0] in message
    assert allowed in message


@pytest.mark.parametrize(("overrides", "says"), [
    (["model.heads=7"], "heads=7 does not divide d_model=512"),
    (["model.d_model=9", "model.heads=3"], "d_model=9 must be even"),
    (["model.tie_source=true"], "tie_source=true needs one vocabulary"),
    (["model.tie_source=true", "text.subwords.joint=false"], "text.subwords.joint=true"),
    (["model.positions=learned", "model.max_positions=100"],
     "model.max_positions=100 is shorter than data.max_length + 1 = 101"),
    (["training.batch_tokens=100"], "cannot hold one pair of data.max_length=100"),
    (["data.corpus=files"], "needs train, validation and test"),
    (["data.train=[a.de, a.en]"], "belong to corpus: files, not sample"),
    (["data.corpus=iwslt2016"], "name its folder or archive with data.root"),
    (["data.split_rule=fairseq"], "iwslt2014 alone"),
    (["data.repair=true"], "the sample is generated"),
])
def test_settings_that_contradict_one_another_are_refused(
        tmp_path: Path, overrides: list[str], says: str) -> None:
    assert says in refusal(tmp_path, *overrides)


def test_settings_at_the_limit_fit_together(tmp_path: Path) -> None:
    load_config(write(tmp_path), ["model.positions=learned", "model.max_positions=101",
                                  "training.batch_tokens=101", "text.subwords.joint=true",
                                  "model.tie_source=true"])


def test_every_problem_is_told_a_line_each(tmp_path: Path) -> None:
    message = refusal(tmp_path, "training.warmup=0", "model.foo=1", "seed=x")
    assert len(message.splitlines()) == 3


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("name: x\ndata: {max_length: 30}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"the key data\.corpus is missing"):
        load_config(path)


def test_set_reaches_nested_lists_and_null_values_and_makes_groups(tmp_path: Path) -> None:
    config = load_config(
        write(tmp_path, training={"patience": 3}, text=None),
        ["training.adam_betas=[0.8, 0.99]", "training.patience=null", "training.factor=5e-1",
         "text.subwords.size=500", "data.corpus=files", "data.train=[a.de, a.en]",
         "data.validation=[b.de, b.en]", "data.test=[c.de, c.en]", "name=other"])
    assert config.training.adam_betas == (0.8, 0.99)
    assert config.training.patience is None
    assert config.training.factor == 0.5
    assert config.text.subwords is not None and config.text.subwords.size == 500
    assert config.data.train == (Path("a.de"), Path("a.en"))
    assert config.name == "other"


@pytest.mark.parametrize(("override", "says"), [
    ("training.warmup", "write it as key=value"), ("=3", "write it as key=value"),
    ("name.first=x", "name is a value, not a group"),
    ("data.train=[a", "not valid YAML"),
])
def test_a_set_that_cannot_be_applied_is_quoted(
        tmp_path: Path, override: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        load_config(write(tmp_path), [override])
    assert f"--set {override}: " in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize(("content", "says"), [
    (b"name: [unclosed", "not valid YAML"),
    (b"name: x\n\tdata: 1", "not valid YAML"),
    (b"- a\n- b\n", "a mapping of keys to values"),
    (b"", "a mapping of keys to values"),
    (b"name: \xff\xfe", "not UTF-8"),
    (b"1: 2", "keys should be strings"),
])
def test_a_file_that_is_no_config_is_told_what_is_wrong(
        tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)


def test_a_missing_file_and_a_folder_are_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.yaml: cannot read this config: No such file"):
        load_config(tmp_path / "absent.yaml")
    with pytest.raises(UserError, match="cannot read this config: Is a directory"):
        load_config(tmp_path)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_saved_config_loads_equal(tmp_path: Path, path: Path) -> None:
    config = load_config(path, ["training.adam_epsilon=1.0e-9", "training.patience=4"])
    save_config(config, tmp_path / "saved.yaml")
    assert load_config(tmp_path / "saved.yaml") == config


def test_a_saved_config_keeps_umlauts_and_paths(tmp_path: Path) -> None:
    config = load_config(write(tmp_path), ["data.corpus=multi30k", "data.root=Übungen/Käse"])
    save_config(config, tmp_path / "saved.yaml")
    assert "Übungen/Käse" in (tmp_path / "saved.yaml").read_text(encoding="utf-8")
    assert load_config(tmp_path / "saved.yaml") == config


def test_a_config_cannot_be_changed_once_it_is_made(tmp_path: Path) -> None:
    config: Config = load_config(write(tmp_path))
    with pytest.raises(ValueError, match="frozen"):
        config.training.warmup = 3  # type: ignore[misc]


def test_a_root_is_refused_where_nothing_is_read_from_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="sample needs none"):
        load_config(write(tmp_path), ["data.root=somewhere"])
