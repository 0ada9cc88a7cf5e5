"""Settings of a run: defaults once, here; TOML files and flags only override them."""

from __future__ import annotations

import tomllib
import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from umcqa.candidates import SoftTargets
from umcqa.data import SAMPLE_NAME
from umcqa.errors import InputError
from umcqa.scoring.scores import ScorerOptions

CONFIG_FOLDER = Path(__file__).parent / "configs"


@dataclass(frozen=True)
class DataConfig:
    """Which questions."""

    path: str = SAMPLE_NAME
    split: str | None = None
    limit: int | None = None
    sample: int | None = None  # so many questions, of random passages
    columns: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MoreConfig(DataConfig):
    """Which other questions are only to be learned from; by default none."""

    path: str = ""


@dataclass(frozen=True)
class ScoreConfig:
    """How choices are scored."""

    scorer: str = "window"
    matcher: str | None = None
    spans: str | None = None
    reader: str = ScorerOptions.reader
    encoder: str = ScorerOptions.encoder
    lm: str = ScorerOptions.lm
    lm_prior: bool = ScorerOptions.lm_prior
    chooser: str = ScorerOptions.chooser
    judge: str = ScorerOptions.judge
    judge_orders: int = ScorerOptions.judge_orders
    weights: dict[str, float] = field(default_factory=dict)
    invert_negated: bool = ScorerOptions.invert_negated


@dataclass(frozen=True)
class SelectConfig:
    """Which choices are candidates; what is not set comes from the scorer's own config."""

    threshold: float | None = None
    max_candidates: int | None = None


@dataclass(frozen=True)
class TrainConfig:
    """How a multiple-choice model learns; what is not set comes from the preset."""

    enabled: bool = True  # in a run: whether there is a model at all
    model: str = "smollm2"
    objective: str = "hard-em"
    preset: str | None = None  # not set: `lm` for a language model, else `paper`
    epochs: int | None = None
    batch_size: int | None = None  # questions of a step
    learning_rate: float | None = None
    max_length: int | None = None
    dropout: float | None = None
    long: str | None = None  # passages that do not fit: cut, or windows
    warmup: float = 0.1  # steps; up to 1, a share of the run
    tau: float = 0.5  # of Hard-EM, likewise
    annealing: str = "release"
    sharpness: float = SoftTargets.sharpness  # of the objective soft, as is the next
    outside: float = SoftTargets.outside
    progressive: float = 0.0  # likewise: share of a target that is the model's own at the end
    confident: float = 1.0  # share of the questions, the clearest; in a run it grows by rounds
    likelihood: float = 0.0  # weight of the right choices' likelihood (language models)
    lora_rank: int = 0
    use_labels: bool = False
    most_labels: int | None = None  # use only so many of them, at random
    rounds: int = 1  # in a run: each after the first learns from scorer and model together
    folds: int = 1  # in a run: parts of the questions, each asked of models of the others
    models: int = 1  # in a run: so many, of seeds that follow; they answer together
    precision: str | None = None  # not set: what this machine does fastest
    seed: int = 0
    checkpoint_seconds: float = 300.0


@dataclass(frozen=True)
class SecondConfig:
    """A model of another kind in a run, which learns the same and answers together with the first.

    By default there is none. These settings are its own, with the meaning that they have for the
    first; the others, such as the objective, are the first's.
    """

    model: str = ""
    preset: str | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    max_length: int | None = None
    dropout: float | None = None
    long: str | None = None
    likelihood: float = 0.0
    lora_rank: int = 0


@dataclass(frozen=True)
class PredictConfig:
    """Which questions a run's model answers: of that path and splits, or those it learned from."""

    path: str | None = None
    splits: list[str] = field(default_factory=list)
    sample: int | None = None  # of each split: so many questions, of random passages
    model_votes: float | None = None  # answer together with the scorer; it counts as much as this


@dataclass(frozen=True)
class RunConfig:
    """A whole run."""

    data: DataConfig = field(default_factory=DataConfig)
    more: MoreConfig = field(default_factory=MoreConfig)
    score: ScoreConfig = field(default_factory=ScoreConfig)
    select: SelectConfig = field(default_factory=SelectConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    second: SecondConfig = field(default_factory=SecondConfig)
    predict: PredictConfig = field(default_factory=PredictConfig)
    seed: int = 0


Config = TypeVar(
    "Config",
    DataConfig,
    MoreConfig,
    ScoreConfig,
    SelectConfig,
    TrainConfig,
    SecondConfig,
    PredictConfig,
    RunConfig,
)


def shipped_configs() -> list[str]:
    """Names of the configs that ship with umcqa."""
    return sorted(path.stem for path in CONFIG_FOLDER.glob("*.toml"))


def load_config(name: str | Path) -> RunConfig:
    """A config from a TOML file, or a shipped one by its name."""
    path = Path(name)
    if not path.exists() and (CONFIG_FOLDER / f"{name}.toml").exists():
        path = CONFIG_FOLDER / f"{name}.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            f"no such config: give a .toml file or one of {', '.join(shipped_configs())}", str(name)
        ) from None
    except ValueError as error:  # TOML syntax or encoding
        raise InputError(f"not valid TOML ({error}): mend it", str(path)) from None
    return parse_config(table, str(path))


def default_config(scorer: str | None = None) -> RunConfig:
    """The recipe that is best here or, for one scorer by itself, the paper's method."""
    best = load_config("best")
    return best if scorer in (None, best.score.scorer) else RunConfig()


def parse_config(table: Mapping[str, Any], where: str = "config") -> RunConfig:
    """A config from nested tables; unknown names and wrong types are errors."""
    config = _build(RunConfig, table, where, "")
    assert isinstance(config, RunConfig)
    return config


def _build(kind: type, table: Mapping[str, Any], where: str, prefix: str) -> Any:
    hints = get_type_hints(kind)
    valid = [one.name for one in fields(kind)]
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = prefix + key
        if key not in valid:
            raise InputError(f"unknown key {name!r}: the keys here are {', '.join(valid)}", where)
        hint = hints[key]
        if is_dataclass(hint) and isinstance(hint, type):
            if not isinstance(value, Mapping):
                raise InputError(f"{name!r} is a table: write [{name}]", where)
            values[key] = _build(hint, value, where, f"{name}.")
        else:
            values[key] = _check_type(value, hint, name, where)
    return kind(**values)


def _check_type(value: Any, hint: Any, name: str, where: str) -> Any:
    accepted = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    plain = tuple(get_origin(one) or one for one in accepted)
    if float in plain and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, plain) or (isinstance(value, bool) and bool not in plain):
        wanted = " or ".join(one.__name__ for one in plain if one is not types.NoneType)
        raise InputError(f"{name!r} must be {wanted}, not {value!r}", where)
    return value


def override(config: Config, **values: Any) -> Config:
    """The config with those values that are given (not None)."""
    return replace(config, **{name: value for name, value in values.items() if value is not None})


def with_second(config: RunConfig, model: str) -> RunConfig:
    """The config with another second model, or with none; each kind of model has its votes."""
    if model == config.second.model:
        return config
    second = SecondConfig(model)  # settings that were made for another are not its own
    votes = config.predict.model_votes
    if votes is not None:
        votes *= (2 if second.model else 1) / (2 if config.second.model else 1)
    return replace(config, second=second, predict=replace(config.predict, model_votes=votes))


def with_selection(config: RunConfig, data_set: str | None = None) -> RunConfig:
    """The config with threshold and number of candidates filled in."""
    defaults = default_selection(config.score.scorer, data_set)
    return replace(config, select=override(defaults, **asdict(config.select)))


def default_selection(scorer: str, data_set: str | None = None) -> SelectConfig:
    """The candidates setting of a scorer, from the config shipped for the data set or for it."""
    names = (f"{data_set}-{scorer}", scorer, "window")
    name = next(name for name in names if name in shipped_configs())
    return load_config(name).select


def to_toml(config: RunConfig) -> str:
    """The config as TOML, as a run saves it; what is not set is left out."""
    import tomli_w

    return tomli_w.dumps(_without_none(asdict(config)))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }
