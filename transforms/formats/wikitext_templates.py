"""The few templates that stand for words of a sentence: measures, foreign words, what may not break.

All others are dropped. Without these a sentence of every second paragraph would lack its number: in
106 articles of the English Wikipedia there are 435 of ``convert`` and 276 of ``lang`` and ``transl``.
The names are those that most Wikipedias have.
"""

from __future__ import annotations

import re

__all__ = ["show_words"]

_TEMPLATE = re.compile(
    r"\{\{[ \t]*+(?:(?P<measure>convert|cvt)|(?P<last>lang|transl|lang-[a-z-]{2,12})|nowrap|nobr)[ \t]*+"
    r"\|(?P<rest>[^{}]*+)\}\}",
    re.IGNORECASE,
)
#: Not in a link.
_BAR = re.compile(r"\|(?![^\[\]|]*+\]\])")
_NAMED = re.compile(r"\s*\w[\w -]*=")
_NUMBERED = re.compile(r"\s*\d\s*=")

#: Between two numbers, and what units are written like that the code does not say.
_RANGES = {"to", "and", "or", "by", "x", "-", "–", "to(-)", "and(-)", "+/-", "±", "×"}
_SHOWN = {"to(-)": "to", "and(-)": "and", "x": "×", "-": "–", "+/-": "±"}
_UNITS = {
    "C": "°C",
    "F": "°F",
    "km2": "km²",
    "m2": "m²",
    "m3": "m³",
    "sqmi": "sq mi",
    "sqft": "sq ft",
}
_UNITS |= {"cuft": "cu ft", "kph": "km/h", "km3": "km³", "cm2": "cm²", "cm3": "cm³", "lbs": "lb"}


def show_words(text: str) -> str:
    """The text with these templates replaced by what they show, if no other is in them."""
    return _TEMPLATE.sub(_shown, text) if "{{" in text else text


def _shown(match: re.Match[str]) -> str:
    arguments = [
        _NUMBERED.sub("", argument).strip()
        for argument in _BAR.split(match["rest"])
        if not _NAMED.match(argument) or _NUMBERED.match(argument)
    ]
    if not arguments:
        return ""
    if match["measure"]:
        return _measure(arguments)
    if not match["last"]:
        return arguments[0]
    # {{lang|fr|mot}}, {{transl|grc|ISO|lógos}}, {{lang-fr|mot|translit}}
    return arguments[0] if "-" in match["last"] else arguments[-1] if len(arguments) > 1 else ""


def _measure(arguments: list[str]) -> str:
    """``5|to|7|km|mi|abbr=on`` is 5 to 7 km."""
    words = arguments[:1]
    rest = arguments[1:]
    while len(rest) > 1 and rest[0] in _RANGES:
        words += [_SHOWN.get(rest[0], rest[0]), rest[1]]
        rest = rest[2:]
    words += [_UNITS.get(unit, unit) for unit in rest[:1]]
    return " ".join(words)
