"""Masks secrets where text enters: tokens by their shape, and values by the name in front of them.

`mask` runs once for each log line, so a cheap look for tell-tale words comes before the pattern.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MASKED = "***"
_QUOTES = ('"', "'", '\\"', "\\'")

_TELL_TALES = (
    "hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "nvapi-", "xox", "akia", "eyj",
    "bearer", "basic", "authorization", "sig=", "signature=", "amz-", "private key-----",
)  # fmt: skip
_NAMES = ("key", "token", "secret", "passw", "credential")
_NAMED = re.compile(
    r"(?:keys?|token|secret|password|passwd|credentials?)\\?['\"]?\s*[:=]"
    r"|(?<![\w-])--[a-z0-9_\-.]{0,64}(?:keys?|token|secret|password|passwd|credentials?)\s"
)
"""Only where one of these stands does a name tell a secret: `max_tokens=` and `key_cache` are no such names."""

_SHAPES = r"""
    (?<![A-Za-z0-9]) (?:hf_[A-Za-z0-9]{20,} | gh[pousr]_[A-Za-z0-9]{20,})
  | (?<![A-Za-z0-9_])
    (?: hf_(?:[A-Za-z0-9]{20,}|(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{6,})
      | sk-[A-Za-z0-9_\-]{8,}
      | gh[pousr]_[A-Za-z0-9]{6,} | github_pat_[A-Za-z0-9_]{6,} | glpat-[A-Za-z0-9_\-]{6,}
      | nvapi-[A-Za-z0-9_\-]{6,} | xox[abprs]-[A-Za-z0-9\-]{6,} | AKIA[0-9A-Z]{16}
      | eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?
    )
"""
# What the console's own errors say behind the name that they are about: `unknown key "apikey": vLLM has no such flag`.
_OWN_WORDS = r"""
    (?: vLLM\ (?:has|knows|takes|reads)\ (?:no|it|the)\ | there\ is\ no\ | is\ (?:not|no)\ [a-z]+\ | must\ be\ [a-z]+\b
      | not\ (?:now|known|part\ of)\b | no\ (?:such|model|stage)\b | (?:the|this)\ (?:deployment|folder|file|variable)\b
      | (?:[a-z]{1,12}\ ){0,2} [a-z]{1,12}\ (?:is|are)\ wanted\b | true\ or\ false\ is )
"""
# A value after a telling name: quoted, a list, or a word. None, booleans, types, … and $REFERENCES are no secrets.
_VALUE = (
    rf"(?! {_OWN_WORDS} )"
    + r"""
    (?!(?:…|\.\.\.|given|None|null|True|False|true|false|str|int|float|bool|bytes|Optional)(?![^\s,;'"()\[\]{}&|.\\])
      | \\?['"]?\$ | ['"]{2} | \\['"]\\['"] | \[\])
    (?: \[[^\]\n]{1,2000}\] | "(?:[^"\\\n]|\\.)*"? | '(?:[^'\\\n]|\\.)*'? | \\['"][^'"\\\n]*(?:\\['"])?
      | [^\s,;'"()\[\]{}&|]+ )
"""
)
# A token may also be a piece of text: its number, or one of the words that every tokenizer has.
_PIECE_OF_TEXT = r"""
    (?: (?:[A-Za-z0-9_]{0,40}[_-])?(?:[bsep]os|pad|unk|sep|cls|mask|image|img|video|audio|start|end|stop|special|begin
          |placeholder|first|last|next|new|prev|previous|per|max|min|num|generated|sampled|draft|bonus|target|prompt
          |output|input|separator|suffix|prefix|middle|fim|tool|call|reasoning|think|thinking|extra|added)[_-]?token
      | [A-Za-z0-9_\-]{0,64}token (?= \\?['"]?\s*[:=]\s* \\?["']? (?:<[/|A-Za-z] | \[[A-Z_]{1,40}\]))
      | token (?= ['"]?\s*[:=]\s* -?\d[\d.,]*(?![A-Za-z0-9_\-])) )
    (?![A-Za-z0-9_])
"""
# A name that ends a phrase, and a sentence behind it: `give-a-token: Create one`. Passwords may be any word.
_PROSE = r"[a-z0-9_\-.]{0,64}(?:token|keys?|credentials?):\ [A-Z][a-z]{1,20},?\ [a-z]"
_ENDING = r"(?:password|passwd|token|secret|api[_-]?keys?|credentials?)"
_NAME = rf"""
    (?<![A-Za-z0-9_\-]) (?!--) (?! (?i:{_PIECE_OF_TEXT}) ) (?! {_PROSE} )
    (?: [A-Z0-9_]{{0,64}}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)
      | (?i: [a-z0-9_\-.]{{0,64}}{_ENDING} | (?:[a-z0-9]{{1,20}}[_-])?(?:secret|access|private)[_-](?:access[_-])?key )
    )
"""
_SECRETS = rf"""
    (?P<header> \b(?i:(?:proxy-)?authorization)\b['"]?\s*[:=]\s*['"]?(?:[A-Za-z]{{1,20}}\s+(?=\S))?) [^\s'",]+
  | (?P<scheme> \b(?:[Bb]earer|BEARER|Basic)\s+(?=[A-Za-z0-9._~+/=\-]*[\d._\-=/+])) [A-Za-z0-9._~+/=\-]{{6,}}
  | (?P<option> (?<![\w-])--(?!(?i:allow|{_PIECE_OF_TEXT}))(?i:[a-z0-9_\-.]{{0,64}}{_ENDING})(?:=|\s+))
    (?![-$|,\])]|\[) (?:"[^"\n]*"? | '[^'\n]*'? | [^\s"']+)
  | (?P<named> {_NAME}\\?['"]?\s*[:=]\s*) (?P<value>{_VALUE})
  | (?P<pem> -----BEGIN\ [A-Z0-9 ]{{0,40}}PRIVATE\ KEY-----) (?:(?!-----END)[\s\S])+
  | (?P<user> (?<=://)[^\s/:@'"]{{0,200}}:) [^\s/@'"]{{1,500}}(?=@)
  | (?P<query> [?&](?:token|key|sig|signature|access_token|X-Amz-[A-Za-z\-]{{1,40}})=) [^&\s'"]+
  | (?P<shape> {_SHAPES})
"""
_KEY_LINE_LENGTHS = (64, 70)
_KEY_LINE = re.compile(r"[A-Za-z0-9+/]{14,70}={0,2}")
_SECRET_NAME = re.compile(r"(?:^|[_\-.])(?:API_?KEYS?|KEY|TOKEN|SECRET|CREDENTIALS?)$|PASSWORD|PASSWD", re.IGNORECASE)


@cache
def _pattern() -> re.Pattern[str]:
    """Compiled when the first text may hold a secret: it takes some milliseconds."""
    return re.compile(_SECRETS, re.VERBOSE)


def mask(text: str) -> str:
    """`text` with every secret replaced by `***`. A second call changes nothing."""
    if _may_hold_a_secret(text):
        text = _mask_all(text)
    return text if " " in text[-16:] else _without_key_line(text)


def _mask_all(text: str) -> str:
    return _pattern().sub(_masked, text)


def _without_key_line(text: str) -> str:
    """A private key comes a line at a time: its lines are 64 or 70 signs of base64, the last one ends with `=`."""
    word = (text[-80:].split() or [""])[-1]
    if len(word) not in _KEY_LINE_LENGTHS and not word.endswith("="):
        return text
    is_base64 = _KEY_LINE.fullmatch(word) and all(any(map(is_a, word)) for is_a in (str.isupper, str.islower))
    if not is_base64 or not any(map(str.isdigit, word)):
        return text
    start = text.rindex(word)
    return f"{text[:start]}{MASKED}{text[start + len(word) :]}"


def _may_hold_a_secret(text: str) -> bool:
    lowered = text.lower()
    is_in = lowered.__contains__
    if any(map(is_in, _TELL_TALES)) or ("@" in text and "://" in text):
        return True
    return any(map(is_in, _NAMES)) and _NAMED.search(lowered) is not None


def _masked(match: re.Match[str]) -> str:
    group = match.lastgroup
    if group == "value":
        group = "named"
    if group is None or group == "shape":
        return MASKED
    kept, secret = match[group], match[0][len(match[group]) :]
    quote = next((one for one in _QUOTES if secret.startswith(one)), "")
    end = quote if quote and len(secret) > len(quote) and secret.endswith(quote) else ""
    return f"{kept}{quote}{MASKED}{end}"


def names_a_secret(name: str) -> bool:
    """Whether a variable of this name holds a secret: HF_TOKEN, VLLM_API_KEY, DB_PASSWORD."""
    return _SECRET_NAME.search(name) is not None


def mask_deep(value: Any) -> Any:
    """The same, with every string in lists and dictionaries masked; tuples become lists."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: mask_deep(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_deep(item) for item in value]
    return value


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of an environment in which values of secret names, and secrets by shape, are masked."""
    return {name: MASKED if names_a_secret(name) and value else mask(value) for name, value in env.items()}


def mask_argv(argv: Sequence[str]) -> list[str]:
    """A copy of a command's words: all values after --api-key and --hf-token are masked, the rest as text."""
    return list(_masked_words(argv))


def _masked_words(argv: Iterable[str]) -> Iterable[str]:
    inside = False
    for word in argv:
        name, equals, _ = word.partition("=")
        if name.startswith("-"):
            inside = name.replace("_", "-") in ("--api-key", "--hf-token")
            yield f"{name}={MASKED}" if inside and equals else mask(word)
        else:
            yield MASKED if inside else mask(word)
