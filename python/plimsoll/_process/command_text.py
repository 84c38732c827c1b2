"""The command line of a program as a trace stores it, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable

_HIDDEN = "***"
# Matches the last part of an option's name, so neither --tokenizer nor --key-dim.
_SECRET = re.compile(
    r"(^|[-_.])(api)?(key|token|secret|password|passwd|passphrase|pass|pwd|pat|credentials?|auth)$",
    re.IGNORECASE,
)
# Tokens of Hugging Face, OpenAI and similar, GitHub, GitLab, Slack, AWS, Google and npm; JSON web
# tokens.
_KNOWN_FORM = re.compile(
    r"^(hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|AIza|npm_|eyJ)\S{8,}"
)
# --header "Authorization: Basic dXNlcjpwYXNz"
_HEADER = re.compile(
    r"^((?:\S+=)?[\w-]*(?:authorization|key|token|cookie)\s*:\s*)\S.*$", re.IGNORECASE
)
_LOGIN = re.compile(r"(?<=://)[^/@\s]+@")


def command_text(words: Iterable[str]) -> str:
    """Return the arguments as text, without values of secret options and without known tokens.

    Example:
        >>> command_text(["train.py", "--api-key=1234", "--token", "1234", "wandb.key=1234"])
        'train.py --api-key=*** --token *** wandb.key=***'
    """
    shown: list[str] = []
    is_value = False
    for word in words:
        name, equals, value = word.partition("=")
        is_option = name.startswith("-")
        if is_value and not is_option:
            shown.append(_HIDDEN)
            is_value = False
            continue
        is_value = is_option and not equals and _SECRET.search(name) is not None
        if equals and (_SECRET.search(name) or _KNOWN_FORM.match(value)):
            shown.append(f"{name}={_HIDDEN}")
        elif _KNOWN_FORM.match(word):
            shown.append(_HIDDEN)
        elif _HEADER.match(word):
            shown.append(_HEADER.sub(rf"\1{_HIDDEN}", word))
        else:
            shown.append(_LOGIN.sub(f"{_HIDDEN}@", word))
    return " ".join(shown)
