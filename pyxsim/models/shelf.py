"""Models by name: shipped ones (data/), and files of the user in the same formats."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from pyxsim.errors import InputError, bundle
from pyxsim.models.layer import Model
from pyxsim.models.recommendation import Recommendation
from pyxsim.models.table import read_table
from pyxsim.models.transformer import Transformer
from pyxsim.settings.faults import translate
from pyxsim.settings.toml import read_toml

_DATA = Path(__file__).parent / "data"
_KINDS: dict[str, type[Transformer] | type[Recommendation]] = {
    "transformer": Transformer,
    "recommendation": Recommendation,
}


def model_files() -> dict[str, Path]:
    """Return the shipped models by name."""
    return {path.stem: path for path in sorted(_DATA.iterdir()) if path.suffix in (".csv", ".toml")}


def load_model(name: str, sequence: int | None = None) -> Model:
    """Return a model by name or from a file: a table of layers (.csv) or a description (.toml).

    `sequence`: tokens per sample, where samples have tokens. Raises InputError with the key.
    """
    path = Path(name)
    if path.suffix not in (".csv", ".toml"):
        shipped = model_files()
        if name not in shipped:
            problem = f"unknown model '{name}'; also allowed: a file, .csv or .toml"
            raise InputError(problem, key="model", allowed=list(shipped), given=name)
        path = shipped[name]
    return _read(path, sequence)


def load_transformer(name: str) -> tuple[Transformer, Model]:
    """Return the description of a transformer, and its model. Raises InputError with the key, also for other models."""
    path = Path(name)
    model = load_model(name)
    path = path if path.suffix in (".csv", ".toml") else model_files()[name]
    description = None if path.suffix == ".csv" else _description(path)
    if not isinstance(description, Transformer):
        others = [other for other, file in model_files().items() if file.suffix == ".toml" and other != "dlrm"]
        raise InputError(f"{model.name} is not a transformer", key="model", allowed=others)
    return description, model


def _read(path: Path, sequence: int | None) -> Model:
    if path.suffix == ".csv":
        _refuse(sequence, path.stem)
        return read_table(path)
    description = _description(path)
    if isinstance(description, Recommendation):
        _refuse(sequence, path.stem)
        layers, tokens, sample = description.build(), 1, "a sample"
    else:
        tokens = sequence or description.sequence
        layers, sample = description.build(tokens), f"a sequence of {tokens} tokens"
    return Model(path.stem, tuple(layers), sample, tokens, help=description.help, source=description.source)


def _description(path: Path) -> Transformer | Recommendation:
    data = read_toml(path)
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(
            "is missing" if kind is None else f"{kind!r} is not a kind of model",
            file=str(path),
            key="kind",
            allowed=list(_KINDS),
            given=kind if isinstance(kind, str) else None,
        )
    try:
        return _KINDS[kind].model_validate(data)
    except ValidationError as error:
        raise bundle(translate(error, _KINDS[kind])).at(file=str(path)) from None


def _refuse(sequence: int | None, name: str) -> None:
    if sequence is not None:
        raise InputError(f"samples of the model '{name}' have no tokens", key="sequence", allowed="none")
