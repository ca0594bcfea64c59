"""Takes secrets out of text: those that are known by value, and those that are known by how they look or are called.

What is neither (a word in a prompt, say) stays: whoever sends a report should look into it first.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast
from urllib.parse import quote

from arcops.core.launch import HIDDEN, hidden

SHORTEST = 6
"""Characters: a shorter known secret is hidden where its name stands, and not wherever its letters turn up."""

_QUOTED = r"""\[[^\]\n]{0,4000}\]?|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?"""
_WORDS = "key|token|secret|password|passwd|passphrase|credential|signature"
# `NAME: value` and `NAME=value` in logs, JSON, YAML, URLs and Python's dicts; ["NAME", "value"] in the launch record.
_PAIR = re.compile(
    rf"(?P<word>{_WORDS})s?(?P<suffix>[_-]\w{{0,40}})?"
    rf"(?P<between>[\"']?\s{{0,5}}[:=]\s{{0,5}}|[\"'],\s{{0,5}}(?=[\"']))(?P<value>{_QUOTED}|[^\s,;}}\])\"'&]+)",
    re.IGNORECASE,
)
# `--name value`, as words of a command line and as items of a list of them.
_FLAG = re.compile(
    rf"(?P<flag>--[\w-]{{0,40}}?(?P<word>{_WORDS})s?)(?P<between>=|[\"']?\s*\n\s*-\s+|[\s\0]+|[\"'],\s*)"
    rf"(?P<value>{_QUOTED}|[^\s,;}}\])\"'\0]+)",
    re.IGNORECASE,
)
_HEADER = re.compile(r"((?:authorization|cookie)[\"']?\s{0,5}[:=]\s{0,5}[\"']?)[^\"'\n]+", re.IGNORECASE)
_BEARER = re.compile(r"(\bbearer\s{1,5})[^\s\"',;]{3,}", re.IGNORECASE)
# Up to the last @ before the path: a password may hold one itself.
_URL = re.compile(r"(?<=://)[^/\s\"'<>]{1,2000}(?=@)")
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|"
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"
)
_PRIVATE = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)
_COUNT = re.compile(r"[\[\]\s\d.,eE+'\"-]*|null|none|true|false", re.IGNORECASE)
"""What `max_num_batched_tokens` and its like are set to: no secret."""
_PLACES = ("_file", "_path", "_dir")
_YAML_KEY = re.compile(r"(?P<indent>\s*(?:-\s+)*)(?P<name>[\"']?[\w.-]+[\"']?)\s*:(?:\s|$)")


class Hider:
    """Everything that is to be hidden."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in known if len(secret) >= SHORTEST for spelling in _spellings(secret)}
        # The longest first: one secret may be a part of another.
        ordered = sorted(spellings, key=lambda text: (-len(text), text))
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def text(self, text: str) -> str:
        """`text` without secrets. JSON stays JSON."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _PRIVATE.sub(HIDDEN, text)
        text = _URL.sub(HIDDEN, text)
        text = _HEADER.sub(rf"\1{HIDDEN}", text)
        text = _BEARER.sub(rf"\1{HIDDEN}", text)
        text = _FLAG.sub(_flag, text)
        text = _PAIR.sub(_pair, text)
        return _SHAPES.sub(HIDDEN, text)

    def yaml(self, text: str) -> str:
        """The text of a YAML file, whether it can be parsed or not: what follows a secret's key is left out up to the
        next key that stands no deeper."""
        kept: list[str] = []
        deeper_than: int | None = None
        for line in text.splitlines():
            key = _YAML_KEY.match(line)
            depth = len(line) - len(line.lstrip())
            if deeper_than is not None and (depth > deeper_than or key is None) and line.strip():
                continue
            deeper_than = None
            if key is not None and is_secret(key["name"].strip("\"'"), line[key.end() :].partition(" #")[0].strip()):
                deeper_than = depth
                line = f"{key['indent']}{key['name']}: {HIDDEN}"
            kept.append(line)
        return self.text("\n".join(kept) + "\n")


def is_secret(name: str, value: str) -> bool:
    """Whether `name` is called like a secret, and `value` could be one."""
    name = name.lstrip("-").replace("-", "_")
    if hidden(name, "-") != HIDDEN and not name.lower().endswith("signature"):
        return False
    if "token" in name.lower() and _COUNT.fullmatch(value):
        return False
    return not (name.lower().endswith(_PLACES) and value.lstrip("\"'").startswith(("/", "~")))


def in_url(text: str) -> list[str]:
    """The passwords (or whatever stands before the @) of the URLs in `text`."""
    return [found.group().partition(":")[2] or found.group() for found in _URL.finditer(text)]


def in_data(data: object, name: str = "") -> Iterator[str]:
    """The secrets in what YAML or JSON was read as: by the names of keys, by the flags of command lines, in URLs."""
    match data:
        case dict():
            for key, value in cast("dict[object, object]", data).items():
                # What stands below a secret's name is secret, whatever its own name.
                yield from in_data(value, name if name and is_secret(name, "?") else str(key))
        case list() | tuple():
            items = list(cast("Sequence[object]", data))
            texts = [item for item in items if isinstance(item, str)]
            yield from in_arguments(texts)
            if len(texts) == len(items) == 2 and is_secret(texts[0], texts[1]):
                yield texts[1]
            for item in items:
                yield from in_data(item, name)
        case str() | int() | float():
            if name and not isinstance(data, bool) and is_secret(name, str(data)):
                yield str(data)
            yield from in_url(str(data))
        case _:
            return


def in_arguments(argv: Sequence[str]) -> list[str]:
    """The values that follow flags which are called like secrets."""
    found: list[str] = []
    flag = ""
    for argument in argv:
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            if equals and is_secret(flag, value):
                found.append(value)
        elif flag and is_secret(flag, argument):
            found.append(argument)
    return found


def _spellings(secret: str) -> set[str]:
    """A secret as JSON, Python and URLs write it."""
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret),
        quote(secret, safe=""),
    }


def _pair(match: re.Match[str]) -> str:
    value, suffix = match["value"], match["suffix"] or ""
    if HIDDEN.startswith(value) or not is_secret(f"{match['word']}{suffix}", value):
        return match.group()
    return match.group()[: match.start("value") - match.start()] + _marked(value, quoted='"' in match["between"])


def _flag(match: re.Match[str]) -> str:
    value = match["value"]
    if HIDDEN.startswith(value) or value.startswith("--") or not is_secret(match["word"], value):
        return match.group()
    return match["flag"] + match["between"] + _marked(value, quoted=False)


def _marked(value: str, *, quoted: bool) -> str:
    """The mark in the place of a value, in its form."""
    if value.startswith("["):
        return f'["{HIDDEN}"]'
    if value.startswith(("'", '"')):
        return f"{value[0]}{HIDDEN}{value[0]}"
    return f'"{HIDDEN}"' if quoted else HIDDEN
