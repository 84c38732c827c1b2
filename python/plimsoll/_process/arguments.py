"""Checks arguments for the engine. Each error names the argument and its value."""

from __future__ import annotations

import operator
from typing import Any

from plimsoll._process.messages import print_notice
from plimsoll._process.names import text_of
from plimsoll._process.program_errors import leave_to_program
from plimsoll.errors import InvalidArgumentError

_MOST = 2**63 - 1


def whole_number(name: str, value: Any, least: int = -_MOST, most: int = _MOST) -> int:
    """Return a 64-bit number, from an int or a value that converts to one without loss.

    Raises:
        InvalidArgumentError: The value is not such a number, or not from `least` to `most`.

    Example:
        >>> whole_number("top", 5)
        5
        >>> whole_number("top", "5")
        Traceback (most recent call last):
        plimsoll.errors.InvalidArgumentError: top='5': it must be a whole number
    """
    try:
        number: int = int(value) if _is_whole_float(value) else operator.index(value)
    except Exception as error:  # the program's types may raise anything
        leave_to_program(error)
        raise bad_argument(name, value, "it must be a whole number") from None
    if number < least:
        ends = {0: "0 or more", 1: "positive"}
        raise bad_argument(name, value, f"it must be {ends.get(least, f'{least} or more')}")
    if number > most:
        raise bad_argument(name, value, f"it must be {most} or less")
    return number


_reported: set[str] = set()


def number_in_loop(function: str, name: str, value: Any) -> int | None:
    """Return a 64-bit number passed to a call in the training loop.

    Any other value is reported once for each function, because an error would stop the training.
    """
    try:
        return whole_number(name, value)
    except InvalidArgumentError as error:
        if function not in _reported:
            _reported.add(function)
            print_notice(f"{function}: {error}; these calls do nothing")
        return None


def _is_whole_float(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


def flag(name: str, value: Any) -> bool:
    """Return a bool, from a bool or a number; text such as "no" is an error.

    Raises:
        InvalidArgumentError: The value is neither a bool nor a number.
    """
    try:
        return bool(operator.index(value))
    except (TypeError, ValueError, RuntimeError) as error:
        leave_to_program(error)
    if type(value).__name__ in ("bool_", "bool"):  # NumPy's bool is not a number
        return bool(value)
    raise bad_argument(name, value, "it must be True or False")


def text(name: str, value: Any) -> str:
    """Return a str unchanged.

    Raises:
        InvalidArgumentError: The value is not a str.
    """
    if not isinstance(value, str):
        raise bad_argument(name, value, "it must be a str")
    return value


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise an error that lists the choices, and the closest, if the value is not one of them."""
    if value not in choices:
        known = ", ".join(choices) + did_you_mean(value, choices)
        raise InvalidArgumentError("invalid_argument", f"{name} '{value}' is not one of {known}")


def check_observation(
    mode: str, uses: str, adapter: str = "auto", attribution: str = "observer"
) -> None:
    """Raise an error if an option is unknown, or if the others prevent the uses asked for."""
    check_choice("mode", mode, ("full", "lite"))
    check_choice("uses", uses, ("auto", "always", "sampled", "never"))
    check_choice("adapter", adapter, ("auto", "libtorch", "python", "none"))
    check_choice("attribution", attribution, ("observer", "native"))
    if uses not in ("always", "sampled"):
        return
    reason = ""
    if mode == "lite":
        reason = f"mode='lite' contradicts uses={uses!r}: lite observes no uses"
    elif adapter in ("python", "none"):
        reason = f"adapter={adapter!r} contradicts uses={uses!r}: only libtorch observes uses"
    if reason:
        raise InvalidArgumentError("invalid_argument", reason)


def did_you_mean(value: object, choices: tuple[str, ...]) -> str:
    """Return ``"; did you mean always?"``, or ``""``, to append to a sentence.

    Example:
        >>> did_you_mean("alway", ("always", "never"))
        '; did you mean always?'
    """
    import difflib  # only for errors

    near = difflib.get_close_matches(value, choices, 1) if isinstance(value, str) else []
    return f"; did you mean {near[0]}?" if near else ""


def bad_argument(name: str, value: object, sentence: str) -> InvalidArgumentError:
    shown = text_of(value, repr)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return InvalidArgumentError("invalid_argument", f"{name}={shown}: {sentence}")
