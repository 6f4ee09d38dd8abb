"""Turns the text of an option into a value, and decides which of the places that give one wins."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

from indextables.errors import InvalidArgument
from indextables.timezones import zone_info

__all__ = [
    "PREFIX",
    "Option",
    "Options",
    "choice",
    "count",
    "flag",
    "known_options",
    "not_below",
    "ratio",
    "size",
    "text",
    "zone",
]

T = TypeVar("T")

PREFIX = "spark.indextables."

_LOGGER = logging.getLogger("indextables")
_REGISTRY: dict[str, Option[Any]] = {}
_TOGETHER: list[tuple[Option[int], Option[int], Option[bool]]] = []
_CALL, _SESSION, _TABLE, _ENVIRONMENT = "call", "session", "table configuration", "environment"


class Option(Generic[T]):
    """One option. `parse` turns text into the value or raises ValueError; `check` refuses values out of range.

    `needed_by` names the verbs that refuse where a table's configuration has a value that cannot be read. Without any,
    such a value counts as not given.
    """

    __slots__ = ("aliases", "check", "default", "help", "key", "kind", "needed_by", "parse")

    def __init__(
        self,
        key: str,
        parse: Callable[[str], T],
        default: T,
        help_text: str,
        *,
        check: Callable[[T], bool] | None = None,
        kind: str = "",
        aliases: tuple[str, ...] = (),
        needed_by: tuple[str, ...] = (),
    ) -> None:
        self.key = key
        self.parse = parse
        self.default = default
        self.help = help_text
        self.check = check
        self.kind = kind
        self.aliases = aliases
        self.needed_by = needed_by
        _REGISTRY[key.lower()] = self
        for alias in aliases:
            _REGISTRY[alias.lower()] = self

    def read(self, value: object, where: str) -> T:
        """The typed value of what was given at `where`. Raises InvalidArgument."""
        given = _text_of(value)
        try:
            parsed = self.parse(given)
            if self.check is None or self.check(parsed):
                return parsed
        except ValueError:
            pass
        message = f"option {self.key} = {given!r} (from the {where}) is not {self.kind}: {self.help}"
        raise InvalidArgument(message, option=self.key, value=given)

    def can_be(self, value: object) -> bool:
        """True if `read` would take it."""
        try:
            self.read(value, "")
        except InvalidArgument:
            return False
        return True


class Options(Mapping[str, str]):
    """Resolved options: `options[opt.X]` is typed; as a mapping it shows the raw texts that were given."""

    def __init__(
        self,
        call: Mapping[str, object] | None = None,
        *,
        session: Mapping[str, object] | None = None,
        table: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Raises InvalidArgument for a value of call, session or environment that is wrong or given twice."""
        self._layers: list[tuple[str, dict[str, object]]] = [
            (_CALL, _normalise(call or {}, _CALL)),
            (_SESSION, _normalise(session or {}, _SESSION, prefixed_only=True)),
            (_TABLE, {}),
            (_ENVIRONMENT, _from_environ(os.environ if environ is None else environ)),
        ]
        self._unreadable: dict[str, str] = {}
        self._url = ""
        self._sets_table = False
        self._told: set[tuple[str, str, str]] = set()
        for where, layer in self._layers:
            _check_values(layer, where)
        self._check_together({key for _, layer in self._layers for key in layer})
        if table:
            self._put_table(table)

    @overload
    def __getitem__(self, key: Option[T]) -> T: ...
    @overload
    def __getitem__(self, key: str) -> str: ...
    def __getitem__(self, key: Option[T] | str) -> T | str:
        """Raises InvalidArgument for an option that a verb needs, and that the table gives a value nobody can read."""
        if isinstance(key, Option):
            for where, layer in self._layers:
                if where == _TABLE and key.needed_by and key.key.lower() in self._unreadable:
                    raise self._refusal(key)
                for name in (key.key, *key.aliases):
                    if name.lower() in layer:
                        return key.read(layer[name.lower()], where)
            return key.default
        for _, layer in self._layers:
            if key.lower() in layer:
                return str(layer[key.lower()])
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        seen: set[str] = set()
        for _, layer in self._layers:
            for key in layer:
                if key not in seen:
                    seen.add(key)
                    yield key

    def __len__(self) -> int:
        return len(set().union(*(layer for _, layer in self._layers)))

    @property
    def asked(self) -> dict[str, object]:
        """What the call and the session gave: the options of the same table in another process."""
        return {key: value for _, layer in reversed(self._layers[:2]) for key, value in layer.items()}

    def over(self, table: Mapping[str, object], url: str = "") -> Options:
        """The same call, session and environment on top of the configuration of the table at `url`.

        What cannot be read of it counts as not given, with a warning; an option that says so refuses to be asked for.
        """
        copy = Options(environ={})
        copy._inherit(self, url)
        copy._put_table(table)
        return copy

    def also(self, call: Mapping[str, object]) -> Options:
        """The same, with more that the call gave. Raises InvalidArgument."""
        more = _normalise(call, _CALL)
        _check_values(more, _CALL)
        copy = Options(environ={})
        copy._inherit(self, self._url)
        copy._unreadable = self._unreadable
        copy._layers = [(where, {**layer, **more} if where == _CALL else layer) for where, layer in self._layers]
        return copy

    def setting(self, table: Mapping[str, object], before: Mapping[str, object] | None = None) -> Options:
        """As `over`, for a configuration that is about to be written in the place of `before`.

        Raises InvalidArgument for values that are new and cannot be read, or do not go together.
        """
        known = before or {}
        new = {key: value for key, value in table.items() if key not in known or known[key] != value}
        layer = _normalise(new, _TABLE)
        _check_values(layer, _TABLE)
        copy = Options(environ={})
        copy._inherit(self, "")
        copy._sets_table = True
        copy._put_table(table)
        bare = Options(environ={})
        bare._put_table(table)
        bare._check_together(set(layer))
        return copy

    def given(self, option: Option[Any]) -> bool:
        """True if somebody set the option, be it to its default, or to what no verb that needs it can read."""
        if option.needed_by and option.key.lower() in self._unreadable:
            return True
        return any(name.lower() in layer for _, layer in self._layers for name in (option.key, *option.aliases))

    def if_readable(self, option: Option[T]) -> T | None:
        """The value, or None where `options[option]` would refuse: for those that can do without."""
        try:
            return self[option]
        except InvalidArgument:
            return None

    @property
    def unreadable(self) -> dict[str, str]:
        """What the table's configuration gives and nobody can read: text by key."""
        return {_REGISTRY[key].key if key in _REGISTRY else key: value for key, value in self._unreadable.items()}

    def excuses(self, key: str) -> bool:
        """True if the value of `key` comes from a table's configuration that stands, so that it counts as not given.

        For whoever reads values that are not declared here, such as those of a family. A warning names the value.
        """
        lower = key.lower()
        for where, layer in self._layers:
            if lower in layer:
                if where != _TABLE or self._sets_table:
                    return False
                self._warn(key, _text_of(layer[lower]))
                return True
        return False

    def from_operator(self, *prefixes: str) -> dict[str, str]:
        """What the call and the session gave below these prefixes, keys in lower case; the call wins.

        The table's configuration is left out: where bytes come from is not for those bytes to say. So is the
        environment, which every process has its own of.
        """
        found: dict[str, str] = {}
        for _, layer in reversed(self._layers[:2]):
            found.update({key: str(value) for key, value in layer.items() if key.startswith(prefixes)})
        return found

    def from_call(self, prefix: str) -> dict[str, str]:
        """What the call itself gave below a prefix, keys in lower case."""
        return {key: str(value) for key, value in self._layers[0][1].items() if key.startswith(prefix)}

    def below(self, prefix: str) -> dict[str, str]:
        """All given keys that start with `prefix` (lower case), without it; the nearest place wins."""
        found: dict[str, str] = {}
        for _, layer in reversed(self._layers):
            for key, value in layer.items():
                if key.startswith(prefix.lower()):
                    found[key[len(prefix) :]] = str(value)
        return found

    def _inherit(self, given: Options, url: str) -> None:
        self._layers = given._layers
        self._told = given._told
        self._url = url

    def _put_table(self, table: Mapping[str, object]) -> None:
        """Take in a table's configuration as it stands, but for values that cannot be read."""
        layer: dict[str, object] = {}
        self._unreadable = {}
        for key, value in table.items():
            if value is None:
                continue
            lower = _plain(key)
            option = _REGISTRY.get(lower)
            if option is None:
                layer.setdefault(lower, value)
            elif not option.can_be(value) or _text_of(layer.get(lower, value)) != _text_of(value):
                self._unreadable[option.key.lower()] = _text_of(value)
            else:
                layer[lower] = value
        for lower, value in self._unreadable.items():
            option = _REGISTRY[lower]
            for name in (option.key, *option.aliases):
                layer.pop(name.lower(), None)
            self._warn(option.key, str(value))
        self._layers = [(where, layer if where == _TABLE else known) for where, known in self._layers]

    def _warn(self, key: str, value: str) -> None:
        told = (self._url, key, value)
        if self._sets_table or told in self._told:
            return
        self._told.add(told)
        option = _REGISTRY.get(key.lower())
        needed = f"; {', '.join(option.needed_by)} will refuse" if option is not None and option.needed_by else ""
        where = f" of {self._url}" if self._url else ""
        _LOGGER.warning(
            "the table property %s = %r%s cannot be read by this version: it counts as not given%s",
            key,
            value,
            where,
            needed,
        )

    def _refusal(self, option: Option[Any]) -> InvalidArgument:
        value = self._unreadable[option.key.lower()]
        where = f" of {self._url}" if self._url else ""
        message = (
            f"the table property {option.key} = {value!r}{where} is not {option.kind}, as this version reads it, and "
            f"{', '.join(option.needed_by)} cannot go by its default. Nothing was done: give {option.key} as an option "
            "of the call or of the session, or use the version that wrote the property"
        )
        return InvalidArgument(message, option=option.key, value=value)

    def _check_together(self, keys: set[str]) -> None:
        for option, least, wanted in _TOGETHER:
            concerned = {o.key.lower() for o in (option, least, wanted)} & keys
            if not concerned or not self.given(option) or self.if_readable(wanted) is False:
                continue
            value, floor = self.if_readable(option), self.if_readable(least)
            if value is not None and floor is not None and value < floor:
                message = (
                    f"option {option.key} = {value} is below {least.key} = {floor}, and {wanted.key} is on: every "
                    f"purge with it would be refused. Give at least {floor}, or lower {least.key} as well"
                )
                raise InvalidArgument(message, option=option.key, value=str(value))


def known_options() -> list[Option[Any]]:
    """Every declared option, by key."""
    return sorted({id(o): o for o in _REGISTRY.values()}.values(), key=lambda o: o.key)


def flag(key: str, default: bool, help_text: str, **more: Any) -> Option[bool]:  # noqa: FBT001 - a declaration
    """Declare true or false."""
    return Option(key, _bool, default, help_text, kind="true or false", **more)


def count(key: str, default: int, help_text: str, *, least: int = 0, most: int = 2**63 - 1, **more: Any) -> Option[int]:
    """Declare a whole number."""
    kind = f"a whole number of at least {least}" if most == 2**63 - 1 else f"a whole number of {least} to {most}"
    return Option(key, int, default, help_text, check=lambda value: least <= value <= most, kind=kind, **more)


def size(key: str, default: int, help_text: str, **more: Any) -> Option[int]:
    """Declare a number of bytes, with or without a unit."""
    kind = "a size of at least 1 byte, such as 268435456 or 256m"
    return Option(key, _bytes, default, help_text, check=lambda v: 1 <= v < 2**63, kind=kind, **more)


def ratio(key: str, default: float, help_text: str, **more: Any) -> Option[float]:
    """Declare a share of the whole."""
    return Option(key, float, default, help_text, check=lambda v: 0 <= v <= 1, kind="a number from 0 to 1", **more)


def choice(key: str, default: str, help_text: str, *choices: str, **more: Any) -> Option[str]:
    """Declare one of some words, in any case."""

    def one_of(given: str) -> str:
        if given.lower() in choices:
            return given.lower()
        raise ValueError(given)

    return Option(key, one_of, default, help_text, kind=f"one of {', '.join(choices)}", **more)


def text(key: str, default: str, help_text: str, **more: Any) -> Option[str]:
    """Declare any text."""
    return Option(key, str, default, help_text, kind="text", **more)


_OWN_NOTES = "indextables."


def notes(key: str, help_text: str, **more: Any) -> Option[dict[str, str]]:
    """Declare names with texts: `name=text`, separated by commas. Names that begin as ours do are refused."""

    def read(given: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in filter(str.strip, given.split(",")):
            name, equals, told = (piece.strip() for piece in part.partition("="))
            if not name or not equals or name in found or name.lower().startswith(_OWN_NOTES):
                raise ValueError(part)
            found[name] = told
        return found

    kind = f"name=text, separated by commas, where no name begins with {_OWN_NOTES}"
    return Option(key, read, {}, help_text, kind=kind, **more)


def zone(key: str, default: str, help_text: str, **more: Any) -> Option[str]:
    """Declare the name of a time zone."""

    def known(given: str) -> str:
        zone_info(given)
        return given

    return Option(key, known, default, help_text, kind="a time zone such as Europe/Berlin or +05:30", **more)


def not_below(option: Option[int], least: Option[int], wanted: Option[bool]) -> None:
    """Declare that `option` is refused where it is set below `least`, unless `wanted` is false."""
    _TOGETHER.append((option, least, wanted))


def _check_values(layer: Mapping[str, object], where: str) -> None:
    for key, value in layer.items():
        option = _REGISTRY.get(key)
        if option is not None:
            option.read(value, where)


def _text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _plain(key: str) -> str:
    """A key as it is looked up: in lower case, without our prefix."""
    lower = key.lower()
    if lower.startswith(PREFIX):
        return lower[len(PREFIX) :]
    return lower[len("spark.hadoop.") :] if lower.startswith("spark.hadoop.fs.") else lower


def _normalise(given: Mapping[str, object], where: str, *, prefixed_only: bool = False) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in given.items():
        if value is None:
            continue
        if not isinstance(key, str):
            raise InvalidArgument(f"the name of an option is a text, not {key!r} (from the {where})", option=key)
        lower = _plain(key)
        if prefixed_only and lower == key.lower() and not lower.startswith("fs."):
            continue
        if lower in result and str(result[lower]) != str(value):
            message = f"option {lower} is given twice in the {where}, with and without the prefix {PREFIX}: keep one"
            raise InvalidArgument(message, option=lower)
        result[lower] = value
    return result


def _from_environ(environ: Mapping[str, str]) -> dict[str, object]:
    given = {name: value for name, value in environ.items() if name.startswith("INDEXTABLES_")}
    if not given:
        # Every handle and every commit to a table with a configuration comes by here.
        return {}
    names = {option.key.replace(".", "_").upper(): option.key.lower() for option in _REGISTRY.values()}
    found: dict[str, object] = {}
    for name, value in given.items():
        key = names.get(name[len("INDEXTABLES_") :].upper())
        if key is not None:
            found[key] = value
    return found


def _bool(given: str) -> bool:
    if given.lower() in ("true", "false"):
        return given.lower() == "true"
    raise ValueError(given)


def _bytes(given: str) -> int:
    found = re.fullmatch(r"([0-9]{1,19})\s*([kmgt]?)(i?b)?", given.lower())
    if found is None:
        raise ValueError(given)
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2]]
