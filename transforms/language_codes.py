"""Names of languages, as people and the web have them, to the two letters that the splitters know."""

from __future__ import annotations

import functools
import re

__all__ = ["base_language", "is_language", "meant_by", "one_language"]

_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*")

#: ISO 639-3 (and the older 639-2) to ISO 639-1, for the languages that have both.
_PAIRS = (
    "aar:aa abk:ab afr:af aka:ak alb:sq sqi:sq amh:am ara:ar arb:ar arg:an arm:hy hye:hy asm:as "
    "ava:av ave:ae aym:ay aze:az azj:az bak:ba bam:bm baq:eu eus:eu bel:be ben:bn bih:bh bis:bi "
    "bod:bo tib:bo bos:bs bre:br bul:bg bur:my mya:my cat:ca ces:cs cze:cs cha:ch che:ce chi:zh "
    "zho:zh cmn:zh chu:cu chv:cv cor:kw cos:co cre:cr cym:cy wel:cy dan:da deu:de ger:de div:dv "
    "dzo:dz ell:el gre:el eng:en epo:eo est:et ekk:et ewe:ee fao:fo fas:fa per:fa pes:fa fij:fj "
    "fin:fi fra:fr fre:fr fry:fy ful:ff kat:ka geo:ka gla:gd gle:ga glg:gl glv:gv grn:gn guj:gu "
    "hat:ht hau:ha hbs:sh heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu ibo:ig ice:is isl:is ido:io "
    "iii:ii iku:iu ile:ie ina:ia ind:id ipk:ik ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kau:kr "
    "kaz:kk khm:km kik:ki kin:rw kir:ky kom:kv kon:kg kor:ko kua:kj kur:ku kmr:ku lao:lo lat:la "
    "lav:lv lvs:lv lim:li lin:ln lit:lt ltz:lb lub:lu lug:lg mac:mk mkd:mk mah:mh mal:ml mao:mi "
    "mri:mi mar:mr may:ms msa:ms zsm:ms mlg:mg plt:mg mlt:mt mon:mn khk:mn nau:na nav:nv nbl:nr "
    "nde:nd ndo:ng nep:ne npi:ne nld:nl dut:nl nno:nn nob:nb nor:no nya:ny oci:oc oji:oj ori:or "
    "ory:or orm:om oss:os pan:pa pli:pi pol:pl por:pt pus:ps que:qu roh:rm ron:ro rum:ro run:rn "
    "rus:ru sag:sg san:sa sin:si slk:sk slo:sk slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st "
    "spa:es srd:sc srp:sr ssw:ss sun:su swa:sw swh:sw swe:sv tah:ty tam:ta tat:tt tel:te tgk:tg "
    "tgl:tl tha:th tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz "
    "uzn:uz ven:ve vie:vi vol:vo wln:wa wol:wo xho:xh yid:yi ydd:yi yor:yo zha:za zul:zu "
)
_TWO_LETTERS = dict(pair.split(":") for pair in _PAIRS.split())
_KNOWN = frozenset(_TWO_LETTERS.values())
#: Codes of no language: of countries, and those that ISO 639 had before.
_MISTAKEN_PAIRS = (
    "al:sq at:de au:en by:be cl:es cn:zh cz:cs dk:da eg:ar ge:ka gb:en hk:zh il:he in:hi iq:ar ir:fa iw:he "
    "ji:yi jp:ja kp:ko kz:kk ma:ar mx:es nz:en pe:es ph:tl pk:ur rs:sr sy:ar tw:zh ua:uk us:en vn:vi"
)
_MISTAKEN = dict(pair.split(":") for pair in _MISTAKEN_PAIRS.split())


def one_language(value: str) -> str | None:
    """The language that a tag names: ``en`` of ``en-US``, ``de`` of ``deu``; None of several or none.

    A language without a code of two letters keeps its three.
    """
    return base_language(value) if _TAG.fullmatch(value.strip().lower()) else None


@functools.lru_cache(maxsize=256)
def base_language(language: str) -> str:
    """The language without region or script, in two letters if it has such a code: ``de`` of ``deu-AT``."""
    first = re.split("[-_]", language.strip().lower(), maxsplit=1)[0]
    return _TWO_LETTERS.get(first, first)


def is_language(language: str) -> bool:
    """Whether there is a language with this code; of those of three letters no list is kept."""
    code = base_language(language)
    return len(code) == 3 or code in _KNOWN


def meant_by(language: str) -> str | None:
    """The code of a language that is often called by this one, which is its country's or an old one."""
    return _MISTAKEN.get(base_language(language))
