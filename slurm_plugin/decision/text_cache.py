"""A cache that is bounded by the text that its entries hold."""

from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class TextCache(Generic[_Key, _Value]):
    """Values by key; where their sizes come to more than ``most``, all are forgotten.

    A single larger one is never cached.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._values: dict[_Key, _Value] = {}

    def get(self, key: _Key) -> _Value | None:
        """Value of a key, None where there is none."""
        return self._values.get(key)

    def put(self, key: _Key, value: _Value, size: int) -> None:
        """Keep a value that is not there yet."""
        if size > self._most:
            return
        if self._size + size > self._most:
            self._values.clear()
            self._size = 0
        self._values[key] = value
        self._size += size
