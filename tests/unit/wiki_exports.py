"""Writes MediaWiki exports for tests."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

__all__ = ["export", "page"]

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="{language}">
  <siteinfo>
    <sitename>A wiki</sitename>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="4" case="first-letter">Нещо</namespace>
      <namespace key="6" case="first-letter">Файл</namespace>
      <namespace key="14" case="first-letter">Категория</namespace>
    </namespaces>
  </siteinfo>
"""


def page(text: str, *, title: str = "A title", inside: str = "<ns>0</ns>", more: str = "") -> str:
    """A page; ``inside`` stands in the page and ``more`` in its revision."""
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    {inside}\n    <id>1</id>\n"
        f"    <revision>\n      <id>2</id>\n      {more}\n      <comment>no &lt;text&gt;</comment>\n"
        f'      <text xml:space="preserve">{escape(text)}</text>\n    </revision>\n  </page>\n'
    )


def export(pages: Iterable[str], *, language: str = "en", prologue: str = "") -> str:
    """All of a file."""
    return prologue + HEAD.format(language=language) + "".join(pages) + "</mediawiki>\n"
