"""The text of a prediction table in the store, and which release made it."""

from dataclasses import fields, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import msgspec

import sacct_ingest
from predictor.prediction_table import EMPTY, PredictionTable
from predictor.problems import problem
from sacct_ingest.records import PART

#: Name of the problem that the models of another release made the table.
OTHER_MODELS = "other_models"
_FIELDS = tuple(one.name for one in fields(PredictionTable) if one.name != "acting")
_decoder = msgspec.json.Decoder(PredictionTable)
_encoder = msgspec.json.Encoder()


@lru_cache(maxsize=1)
def models_version() -> str:
    """Version of the code that makes tables: a digest of its sources, in 5 ms.

    Whatever changes them makes another version, so that nobody has to remember to raise one.
    """
    digest = blake2b(digest_size=8)
    for package in (Path(__file__).parent, Path(sacct_ingest.__file__).parent):
        for source in sorted(package.rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def encode(table: PredictionTable) -> str:
    """Text of a table as the store keeps it: JSON that begins with the models' version."""
    return head() + _encoder.encode(table).decode().removeprefix("{")


def decode(payload: str | bytes) -> PredictionTable:
    """Table of a text that :func:`encode` made; an empty one where other models made it.

    Raises msgspec.DecodeError: not JSON, or not a table (``msgspec.ValidationError``).
    """
    table = _decoder.decode(payload)
    return table if is_current(payload) else _emptied(table)


def is_current(payload: str | bytes) -> bool:
    """Whether the models of this release made the table of a text."""
    if isinstance(payload, bytes):
        return payload.startswith(head().encode())
    return payload.startswith(head())


def is_outdated(table: PredictionTable) -> bool:
    """Whether other models made a table, of which only its names are left."""
    return any(one.name == OTHER_MODELS for one in table.problems)


@lru_cache(maxsize=1)
def head() -> str:
    """Give what the texts of the tables begin with that the models of this release made."""
    return f'{{"models":"{models_version()}",'


def _emptied(table: PredictionTable) -> PredictionTable:
    """Leave what a table is about, and nothing that its models predicted."""
    return replace(
        EMPTY,
        level=table.level,
        key=table.key,
        label=table.label,
        command=table.command,
        owner=table.owner,
        unit=table.unit,
        runs=table.runs,
        last_s=table.last_s,
        fitted_s=table.fitted_s,
        confidence=table.confidence,
        model=table.model,
        problems=(problem(OTHER_MODELS),),
    )


def with_acting(shown: PredictionTable, acting: PredictionTable) -> PredictionTable:
    """Table that holds another one, too: what jobs are changed by (:func:`acting_of`)."""
    pairs = ((name, getattr(shown, name), getattr(acting, name)) for name in _FIELDS)
    differing = {name: own for name, other, own in pairs if own != other}
    return replace(shown, acting=msgspec.to_builtins(differing))


def acting_of(table: PredictionTable) -> PredictionTable:
    """Table that changes jobs: no other user's runs have a say in it.

    What is shown leans on the record of the whole site where an application has few runs.
    """
    if not table.acting:
        return table
    values = {name: getattr(table, name) for name in _FIELDS}
    return msgspec.convert({**msgspec.to_builtins(values), **table.acting}, PredictionTable)


def part_key(key: str, name: str) -> str:
    """Key of a part of an identity."""
    return f"{key}{PART}{name}"


def whole_key(key: str) -> str:
    """Key of the identity that a part belongs to; its own where it is none.

    >>> whole_key(part_key("ann/cfd", "1f"))
    'ann/cfd'
    """
    return key.partition(PART)[0]
