"""What a run is: typed, validated, in one place (configs/*.yaml and --set key=value)."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from translate.errors import UserError

LONGEST, DEEPEST = 1 << 16, 20  # a config, in bytes and levels
MOST = 10  # problems that are told


def _nameable(path: Path) -> Path:
    try:
        path.expanduser()  # a RuntimeError where there is no such user
        if b"\0" not in str(path).encode():
            return path
    except (RuntimeError, UnicodeEncodeError):
        pass
    raise ValueError("no file can have this name")


Probability = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=10**9)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
FilePath = Annotated[Path, AfterValidator(_nameable)]
FilePair = tuple[FilePath, FilePath]


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataConfig(Settings):
    """Which corpus, and which of its pairs are kept or repaired."""

    corpus: Literal["sample", "multi30k", "iwslt2014", "iwslt2016", "iwslt2017", "files"]
    root: FilePath | None = None  # a folder or archive to read instead of downloading
    split_rule: Literal["official", "fairseq"] = "official"  # iwslt2014 alone
    train: FilePair | None = None  # corpus: files - [German file, English file]
    validation: FilePair | None = None
    test: FilePair | None = None
    max_length: Count = 100  # tokens a side; longer training pairs are dropped
    max_ratio: Positive = 9.0  # longer side / shorter side, in tokens
    repair: bool = False  # realign shifted lines of validation and test sets

    @model_validator(mode="after")
    def _files_are_named(self) -> "DataConfig":
        named = [self.train, self.validation, self.test]
        if self.corpus == "files" and None in named:
            raise ValueError("corpus: files needs train, validation and test: [path.de, path.en]")
        if self.corpus != "files" and any(named):
            raise ValueError(f"train, validation, test belong to corpus: files, not {self.corpus}")
        if self.corpus == "iwslt2016" and self.root is None:
            raise ValueError("iwslt2016 has no public home any more: name its folder or archive "
                             "with data.root")
        if self.root is not None and self.corpus in ("sample", "files"):
            raise ValueError(f"root is a folder or archive to read instead of a download, and "
                             f"{self.corpus} needs none")
        if self.split_rule != "official" and self.corpus != "iwslt2014":
            raise ValueError("split_rule: fairseq is a rule for iwslt2014 alone")
        if self.repair and self.corpus == "sample":
            raise ValueError("repair is for files that may be misaligned; the sample is generated")
        return self


class SubwordConfig(Settings):
    type: Literal["bpe", "unigram"] = "bpe"
    size: Annotated[int, Field(ge=300, le=10**6)] = 8000
    joint: bool = True  # one model and vocabulary for both languages


class TextConfig(Settings):
    lowercase: bool = False
    min_freq: Count = 2  # words seen less often are <unk>; word-level runs alone
    subwords: SubwordConfig | None = None  # none: words


class ModelConfig(Settings):
    """The arguments of `translate.model.transformer.Transformer`; the defaults are the paper's."""

    d_model: Count = 512
    heads: Count = 8
    encoder_layers: Layers = 6
    decoder_layers: Layers = 6
    d_ff: Count = 2048
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0
    norm: Literal["pre", "post"] = "post"
    positions: Literal["sinusoidal", "learned", "relative"] = "sinusoidal"
    activation: Literal["relu", "gelu"] = "relu"
    max_positions: Count = 2048  # of the learned table, and of an exported sinusoidal one
    tie_output: bool = True
    tie_source: bool = False  # needs a joint vocabulary

    @model_validator(mode="after")
    def _sizes_fit(self) -> "ModelConfig":
        if self.d_model % self.heads:
            raise ValueError(f"heads={self.heads} does not divide d_model={self.d_model}")
        if self.d_model % 2:
            raise ValueError(f"d_model={self.d_model} must be even (pairs of sine and cosine)")
        return self


class TrainingConfig(Settings):
    epochs: Count = 20
    max_updates: Count | None = None  # stops earlier than epochs
    batch_tokens: Count = 4096  # pairs x the longest side, padding included, in one batch
    accumulate: Count = 1  # batches an update, shared out among the processes there are
    warmup: Count = 4000  # updates
    factor: Positive = 1.0  # multiplies the Noam schedule
    adam_betas: tuple[Probability, Probability] = (0.9, 0.98)
    adam_epsilon: Positive = 1e-9
    label_smoothing: Probability = 0.1
    clip_norm: Positive | None = 1.0
    validate_every: Count | None = None  # updates; none: after every epoch
    log_every: Count = 50  # updates between points of the training curves
    save_minutes: NotNegative = 10.0  # between states to go on from
    max_skipped: Count = 10  # updates in a row with a loss or gradient that is not finite
    early_stopping: Literal["bleu", "loss"] = "bleu"  # what `best` means
    patience: Count | None = None  # validations without a better one before stopping
    average: Count = 5  # the last checkpoints whose mean weights are tried at the end
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    compile: bool = False  # by torch.compile: minutes at first, then faster on a GPU
    gradient_checkpointing: bool = False  # less memory: layers are computed again for gradients

    def limits(self) -> dict[str, int | None]:
        """How long a run trains: what may be changed to train a finished one further."""
        return {key: getattr(self, key) for key in ("epochs", "max_updates", "patience")}


class DecodingConfig(Settings):
    beam: Count = 5
    length_penalty: NotNegative = 0.6  # alpha of Wu et al. 2016, equation 14
    # Output limit: factor * |src| + extra.
    max_length_factor: Annotated[float, Field(ge=0, le=100)] = 1.5
    max_length_extra: Count = 10
    min_length: Annotated[int, Field(ge=0)] = 0  # tokens before <eos>
    no_repeat_ngram: Count | None = None  # no n-gram of this size twice in a translation
    forbid_unk: bool = False  # never produce <unk>
    replace_unk: bool = False  # show, for an <unk>, the source token that cross-attention points at
    batch_tokens: Count = 8192  # sentences x beam x longest source, in one batch

    def limit(self, source_tokens: int) -> int:
        """Of a translation's length, `<eos>` included."""
        return int(self.max_length_factor * source_tokens) + self.max_length_extra


class Config(Settings):
    """A whole run. The resolved config is saved with the run and is enough to repeat it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    data: DataConfig
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()

    @model_validator(mode="after")
    def _parts_fit(self) -> "Config":
        joint = self.text.subwords is not None and self.text.subwords.joint
        if self.model.tie_source and not joint:
            raise ValueError("model.tie_source=true needs one vocabulary: text.subwords.joint=true")
        longest = self.data.max_length + 1
        if self.model.positions == "learned" and self.model.max_positions < longest:
            raise ValueError(f"model.max_positions={self.model.max_positions} is shorter than "
                             f"data.max_length + 1 = {longest}")
        if self.training.batch_tokens < longest:
            raise ValueError(f"training.batch_tokens={self.training.batch_tokens} cannot hold one "
                             f"pair of data.max_length={self.data.max_length} tokens")
        return self


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file, apply `key.path=value` overrides, and validate the whole.

    Raises:
        UserError: naming the file, the key, the value, what is allowed and the nearest valid name.
    """
    try:
        with open(path, "rb") as file:  # which may have no end, such as a pipe
            data = file.read(LONGEST + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"{path}: cannot read this config: {reason}") from None
    if len(data) > LONGEST:
        raise UserError(f"{path}: longer than {LONGEST:,} bytes: this is no config")
    values = _parse(text, str(path))
    if not isinstance(values, dict):
        raise UserError(f"{path}: a config is a mapping of keys to values, see configs/sample.yaml")
    for override in overrides:
        _apply(values, override)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        problems = [_explain(path, problem) for problem in error.errors()]
        more = [f"… and {len(problems) - MOST} more"] if len(problems) > MOST else []
        raise UserError("\n".join(problems[:MOST] + more)) from None


def save_config(config: Config, path: Path) -> None:
    """Write it atomically: a crash leaves the previous file or the new one."""
    values = config.model_dump(mode="json")
    partial = path.with_name(path.name + ".partial")
    partial.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True),
                       encoding="utf-8")
    os.replace(partial, path)


def _parse(text: str, where: str) -> Any:
    depth = 0
    try:
        for event in yaml.parse(text, yaml.SafeLoader):
            # A few lines of names for lists of names can stand for more than fits into memory.
            if isinstance(event, yaml.AliasEvent):
                raise UserError(f"{where}: *{event.anchor}: write the value out; names for values "
                                "are not read here")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise UserError(f"{where}: nested more than {DEEPEST} levels deep: this is no "
                                "config")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None
    except (ValueError, LookupError, AttributeError):  # what int(), date() and the like raise
        raise UserError(f"{where}: not valid YAML: a number, a date or a value with a !!tag cannot "
                        "be read") from None


def _apply(values: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise UserError(f"--set {override}: write it as key=value, such as training.warmup=2000")
    *parents, last = key.split(".")
    for parent in parents:
        inner = values.setdefault(parent, {})
        if inner is None:
            inner = values[parent] = {}
        if not isinstance(inner, dict):
            raise UserError(f"--set {override}: {parent} is a value, not a group of settings")
        values = inner
    values[last] = _parse(value, f"--set {override}")


def _explain(path: Path, problem: Any) -> str:
    """One line for one of pydantic's error records."""
    location = [str(part) for part in problem["loc"]]
    key = ".".join(location)
    if problem["type"] == "extra_forbidden":
        allowed = _names(location[:-1])
        close = difflib.get_close_matches(location[-1], allowed, n=1)
        advice = f"did you mean {close[0]}?" if close else f"known are: {', '.join(allowed)}"
        return f"{path}: unknown key {key}; {advice}"
    if problem["type"] == "missing":
        return f"{path}: the key {key} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    if not key or problem["type"] == "value_error":
        return f"{path}: {message}"
    return f"{path}: {key}={_short(problem['input'])}: {message}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python does not write out integers of thousands of digits
        return "…"
    return text if len(text) <= 100 else f"{text[:100]}…"


def _names(location: list[str]) -> list[str]:
    """The keys that exist at a place in the config."""
    model: type[BaseModel] = Config
    for part in location:
        annotation: Any = model.model_fields[part].annotation
        choices = getattr(annotation, "__args__", (annotation,))
        model = next(c for c in choices if isinstance(c, type) and issubclass(c, BaseModel))
    return list(model.model_fields)
