"""The links of wikitext: what is text of them stays, marked, for it tells prose from lists of links."""

from __future__ import annotations

import dataclasses
import re

__all__ = ["EXTERNAL", "MARKS", "Prefixes", "keep_labels", "outside_links"]

#: Around the text of a link. No text holds them: Unicode keeps them for such use inside of a program.
_LINK, EXTERNAL, _END = "\ufdd0", "\ufdd1", "\ufdd2"
MARKS = re.compile(f"[{_LINK}{EXTERNAL}{_END}]")
_MARKED = re.compile(f"[{_LINK}{EXTERNAL}][^{_LINK}{EXTERNAL}{_END}]*+{_END}")

#: A link without a link in it. What is in brackets inside of a link becomes text first.
_INTERNAL = re.compile(r"\[\[((?:[^\[\]]|\[(?!\[)|\](?!\]))*+)\]\]")
_EXTERNAL = re.compile(
    r"\[(?:(?:https?|ftps?|ircs?|gopher|news|mailto|tel|sftp|git):|//)[^\s\[\]<>\"]*+"
    r"[ \t]*+([^\[\]\n]*+)\]"
)
#: One without an end; what follows on its line is a caption, if it is one to a picture.
_UNCLOSED = re.compile(r"\[\[([^\[\]|\n]*+)[^\n]*+")
#: Links in captions of pictures in links, and so on.
_DEEPEST = 6

#: The first part of a link to the same article in another language; some others look like it.
_LANGUAGE = re.compile(r"(?:[a-z]{2,3}|simple)(?:-[a-z]{2,12}){0,3}")
_NO_LANGUAGES = frozenset({"doi", "hdl", "mw", "rfc", "wmf", "mos"})
_FILE_NAME = re.compile(
    r"[^:|]{1,40}:[^|\n]*\.(?:jpe?g|png|gif|svg|tiff?|webp|xcf|djvu|pdf|og[gvax]|opus|web[mp]|wav|mp3|midi?"
    r"|flac|stl)\s*",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Prefixes:
    """What stands before the colon in links that are no text: pictures and categories; case-folded."""

    dropped: frozenset[str] = frozenset({"file", "image", "media", "category"})

    def and_of_wiki(self, names: frozenset[str]) -> Prefixes:
        """These and the wiki's own."""
        return Prefixes(self.dropped | names)

    def drop(self, target: str) -> bool:
        """Whether a link there is no text."""
        prefix, colon, _ = target.partition(":")
        if not colon:
            return False
        prefix = prefix.strip()
        if _LANGUAGE.fullmatch(prefix) and prefix not in _NO_LANGUAGES:
            return True
        name = prefix.replace("_", " ").casefold()
        return name in self.dropped or _FILE_NAME.fullmatch(target) is not None


def keep_labels(text: str, *, prefixes: Prefixes) -> str:
    """The text with its links replaced by what is shown of them, between marks."""

    def internal(match: re.Match[str]) -> str:
        target, pipe, label = match[1].partition("|")
        shown = target.strip()
        if shown.startswith(":"):
            shown = shown[1:]
        elif prefixes.drop(shown):
            return ""
        if pipe and label.strip():
            shown = label
        return f"{_LINK}{shown}{_END}"

    def external(match: re.Match[str]) -> str:
        label = match[1].strip()
        return f"{EXTERNAL}{label}{_END}" if label else ""

    for depth in range(_DEEPEST):
        text, found = _INTERNAL.subn(internal, text)
        if depth == 0:
            text = _EXTERNAL.sub(external, text)
        elif not found:
            break
    if "[[" in text:
        text = _UNCLOSED.sub(lambda m: "" if prefixes.drop(m[1].strip()) else m[0], text)
    return text


def outside_links(text: str) -> str:
    """What of a text is in no link."""
    return MARKS.sub("", _MARKED.sub("", text))
