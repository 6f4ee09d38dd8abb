"""What the site takes from the code while it is built: options, exit codes and commands, where their marks stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    for name, made in SECTIONS.items():
        mark = "{{ " + name + " }}"
        if mark in markdown:
            markdown = markdown.replace(mark, made())
    return markdown


def options() -> str:
    """Every declared option as a row."""
    from indextables.options import known_options

    rows = ["| key | default | value | meaning |", "|---|---|---|---|"]
    for option in known_options():
        aliases = "".join(f"<br>also `{alias}`" for alias in option.aliases)
        default = "" if option.default in ("", {}) else f"`{str(option.default).lower()}`"
        needed = f"<br>needed by {', '.join(option.needed_by)}" if option.needed_by else ""
        rows.append(f"| `{option.key}`{aliases} | {default} | {option.kind} | {option.help}{needed} |")
    return "\n".join(rows)


def load_options() -> str:
    """Every option of one load of Spark as a row."""
    from indextables.options import LOADING

    return _of_a_call(LOADING)


def save_options() -> str:
    """Every option of one save of Spark as a row."""
    from indextables.options import SAVING

    return _of_a_call(SAVING)


def _of_a_call(declared: Any) -> str:
    rows = ["| key | value | meaning | elsewhere |", "|---|---|---|---|"]
    rows += [f"| `{option.key}` | {option.kind} | {option.help} | {option.instead} |" for option in declared]
    return "\n".join(rows)


def exit_codes() -> str:
    """Every exit code as a row."""
    from indextables.cli.outcome import EXIT_CODES

    rows = ["| code | meaning |", "|---|---|"]
    return "\n".join([*rows, *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())])


def commands() -> str:
    """Every command with the first sentence of its help."""
    from indextables.cli.app import COMMANDS, commands_named

    rows = ["| command | |", "|---|---|"]
    for name, command in commands_named(COMMANDS).items():
        first = (command.__doc__ or "").strip().splitlines()[0]
        rows.append(f"| `indextables {name}` | {first.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


SECTIONS: dict[str, Callable[[], str]] = {
    "options": options,
    "options of a load": load_options,
    "options of a save": save_options,
    "exit codes": exit_codes,
    "commands": commands,
}
