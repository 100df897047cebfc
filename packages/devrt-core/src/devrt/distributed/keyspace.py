"""The keys of a cluster as jaxlib has them, over any store."""

from __future__ import annotations

from devrt.distributed.store import Entry, Lease, Store
from devrt.errors import DistributedError, StatusCode

__all__ = ["Keyspace", "normalised", "not_found"]


def normalised(key: str) -> str:
    """Return a key without empty parts: ``/dir//x/`` is ``dir/x``."""
    return "/".join(part for part in key.split("/") if part)


def not_found(key: str) -> DistributedError:
    """Return the error for a key that is not there."""
    msg = f"NOT_FOUND: key {key!r} is not there: no process has set it, or one deleted it."
    return DistributedError(msg, code=StatusCode.NOT_FOUND, key=key)


class Keyspace:
    """Keys that are parts of paths; a directory is every key below one.

    Parameters
    ----------
    store
        Where they are kept.
    prefix
        What their names in the store begin with.
    lease
        What the keys are bound to.
    """

    def __init__(self, store: Store, prefix: str = "kv/", lease: Lease | None = None) -> None:
        self.store = store
        self._prefix = prefix
        self._lease = lease

    def stored(self, key: str) -> str:
        """Return a key's name in the store."""
        return self._prefix + normalised(key)

    def set(self, key: str, value: bytes, overwrite: bool) -> None:
        """Set a key; without ``overwrite`` one that is there is ``ALREADY_EXISTS``."""
        name = self.stored(key)
        if overwrite:
            self.store.set(name, value, self._lease)
        elif not self.store.transaction({name: 0}, {name: value}, self._lease):
            msg = (
                f"ALREADY_EXISTS: key {normalised(key)!r} is there already. Set it with "
                "allow_overwrite=True, or delete it first."
            )
            raise DistributedError(msg, code=StatusCode.ALREADY_EXISTS, key=normalised(key))

    def get(self, key: str) -> bytes | None:
        """Return a key's value; None if it is not there."""
        entry = self.store.get(self.stored(key))
        return None if entry is None else entry.value

    def directory(self, key: str) -> list[tuple[str, bytes]]:
        """Return the keys below one and their values, by key."""
        found = self.store.range(f"{self.stored(key)}/" if normalised(key) else self._prefix)
        return [(self._key(entry), entry.value or b"") for entry in found]

    def delete(self, key: str) -> None:
        """Delete a key and every key below it."""
        name = self.stored(key)
        if normalised(key):
            self.store.delete(name)
            name += "/"
        self.store.delete(name, prefix=True)

    def increment(self, key: str, by: int) -> int:
        """Add to a key's number, which begins at 0; return the sum."""
        return self.store.increment(self.stored(key), by, self._lease)

    def _key(self, entry: Entry) -> str:
        return entry.key[len(self._prefix) :]
