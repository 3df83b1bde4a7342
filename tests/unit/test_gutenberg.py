"""Project Gutenberg's files: the licence goes, paragraphs are joined, verses are not."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import RecordError
from transforms.formats.framing import Record
from transforms.formats.gutenberg import Gutenberg, book_text
from transforms.formats.unwrapping import unwrap
from transforms.inputs import list_inputs
from transforms.read_tasks import plan_reads
from transforms.reader import ReadOptions, read_task

PARAGRAPH = (
    "It was the habit of the old ferryman to rise before the sun and to look at the river, for "
    "it was never the same two mornings together, and he held that a man who does not know his "
    "river by sight had better carry sheep. This morning it was brown and in a hurry."
)
BODY = "CHAPTER I\n\n" + textwrap.fill(PARAGRAPH, 70)
TEXT = f"CHAPTER I\n{PARAGRAPH}"
LICENCE = (
    "The Project Gutenberg EBook of The Ferry\n\nThis eBook is for the use of anyone anywhere.\n\n"
)
AFTER = "\n\nUpdated editions will replace the previous one.\n"

BEGINS = [
    "*** START OF THE PROJECT GUTENBERG EBOOK THE FERRY ***",
    "***START OF THE PROJECT GUTENBERG EBOOK THE FERRY***",
    "*** START OF THIS PROJECT GUTENBERG EBOOK THE FERRY, OR, HOW TO KNOW\nA RIVER BY SIGHT ***",
    "*** START OF THIS PROJECT GUTENBERG ETEXT THE FERRY",
    "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
    "*END THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
    "*** START OF THE PROJECT GUTENBERG EBOOK THE FERRY ***\n\n\n\nProduced by A. Person and the Online\n"
    "Distributed Proofreading Team",
    "*** START OF THE PROJECT GUTENBERG EBOOK THE FERRY ***\n\nE-text prepared by A. Person\n\n"
    "This eBook was produced by B.",
]
ENDS = [
    "*** END OF THE PROJECT GUTENBERG EBOOK THE FERRY ***",
    "***END OF THIS PROJECT GUTENBERG EBOOK THE FERRY***",
    "End of Project Gutenberg's The Ferry, by A. Person",
    "End of the Project Gutenberg EBook of The Ferry",
    "The end of this Project Gutenberg Etext",
    "Ende dieses Projekt Gutenberg Etextes",
    "*** START: FULL LICENSE ***",
]


@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("end", ENDS)
def test_the_licence_is_dropped(begin, end):
    for newline in ("\n", "\r\n"):
        content = f"{LICENCE}{begin}\n\n\n{BODY}\n\n\n{end}{AFTER}".replace("\n", newline)
        assert book_text(content) == TEXT


def test_a_file_may_lack_the_first_part_the_last_or_both():
    assert book_text(BODY) == TEXT
    assert book_text(f"{LICENCE}{BEGINS[0]}\n\n{BODY}") == TEXT
    assert book_text(f"{BODY}\n\n{ENDS[2]}{AFTER}") == TEXT


def test_who_made_the_file_is_text_where_no_licence_came_before():
    begins = "Produced by the mill in winter, the flour was grey.\n\n"
    assert book_text(begins + BODY).startswith("Produced by the mill")


VERSES = [
    "The moon is up, the tide is low,\n  The lamp is on the stair,\nAnd where the silver rushes grow\n"
    "  The heron combs her hair.",
    "    Row, ferryman, row to the further side,\n    For the day is short and the river is wide,\n"
    "    And nobody knows what the waters hide.",
    "CONTENTS\n\nI. The River           1\nII. The Boat           17\nIII. The Sheep         35",
    "          To the pure all things are pure, as they say\n                       (puris omnia pura)",
    "Mr. A. Person,\nThe Ferry,\nLower Town.",
]


@pytest.mark.parametrize("verse", VERSES)
def test_verses_and_lists_keep_their_lines(verse):
    content = f"{BODY}\n\n{verse}\n\n{textwrap.fill(PARAGRAPH, 70)}"
    lines = [line.strip() for line in verse.split("\n") if line]
    assert book_text(content).split("\n")[2:-1] == lines


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(st.text("abcdefghij.,", min_size=1, max_size=12), min_size=30, max_size=90),
        min_size=1,
        max_size=5,
    ),
    st.integers(50, 80),
    st.sampled_from(["", "  ", "    "]),
)
def test_what_was_wrapped_is_joined(paragraphs, width, indent):
    texts = [" ".join(words) for words in paragraphs]
    wrapped = [textwrap.fill(t, width, initial_indent=indent) for t in texts]
    assert list(unwrap("\n\n".join(wrapped))) == texts


def test_notes_that_are_indented_as_a_whole_are_joined():
    note = textwrap.fill(PARAGRAPH, 70, initial_indent="  ", subsequent_indent="  ")
    assert list(unwrap(f"{BODY}\n\n{note}")) == ["CHAPTER I", PARAGRAPH, PARAGRAPH]


def test_a_line_that_ends_early_here_and_there_is_forgiven():
    lines = textwrap.wrap(PARAGRAPH * 4, 70)
    early = [*lines[:5], lines[5][:40].rsplit(" ", 1)[0]]
    rest = textwrap.wrap(" ".join([lines[5][len(early[-1]) + 1 :], *lines[6:]]), 70)
    assert list(unwrap("\n".join([*early, *rest]))) == [PARAGRAPH * 4]
    early[1] = early[1][:20]
    assert list(unwrap("\n".join([*early, *rest]))) == [*early, *rest]


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("the well-", "known ferry", "the well-known ferry"),
        ("the ferry--", "the old one", "the ferry--the old one"),
        ("the ferry—", "the old one", "the ferry—the old one"),
        ("the ferry -", "the old one", "the ferry - the old one"),
        ("the ferry", "was old", "the ferry was old"),
    ],
)
def test_a_hyphen_at_the_end_of_a_line_stays(first, second, joined):
    filler = "and so it went on for a good while longer, " * 2
    text = f"{filler}{first}\n{second} {filler}"
    assert list(unwrap(text)) == [" ".join(f"{filler}{joined} {filler}".split())]


def test_chinese_lines_are_joined_without_a_space():
    lines = ["渡船的老人每天在太阳升起之前起床看一看河水", "因为河水从来没有两个早晨是一样的"]
    assert list(unwrap("\n".join(lines))) == ["".join(lines)]


def test_marks_of_the_transcription():
    content = (
        "[Illustration]\n\n[Illustration: A ferry\n[see page 3]\non a river.]\n\n"
        "He was _very_ sure of the river, and of his boat, _quite\nsure_ of file_name_here, of ____ "
        "and of [1].\n\n"
        "* * * * *\n\n-----\n\n“_Row!_” she said."
    )
    assert book_text(content) == (
        "He was very sure of the river, and of his boat, quite sure of file_name_here, of ____ and "
        "of [1].\n“Row!” she said."
    )


def test_files_are_documents_only_when_asked(tmp_path):
    content = f"{LICENCE}{BEGINS[0]}\n\n{BODY}\n\n{ENDS[0]}{AFTER}".replace("\n", "\r\n")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(content.encode())
    assert {f.format for f in list_inputs([str(tmp_path)], format="auto")} == {"text"}
    files = list_inputs([str(tmp_path)], format="gutenberg")
    found = [
        row["text"]
        for task in plan_reads(files, num_stripes=2, range_bytes=10)
        for _, batch in read_task(task, options=ReadOptions())
        for row in batch.to_pylist()
    ]
    assert found == [TEXT, TEXT]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_document"),
        (f"{LICENCE}{BEGINS[0]}\n\n{ENDS[0]}".encode(), "empty_document"),
        (b"caf\xe9", "undecodable"),
    ],
)
def test_files_without_text_are_refused(data, reason):
    with pytest.raises(RecordError) as error:
        Gutenberg().parse(Record(0, data))
    assert error.value.reason == reason


def test_a_real_book(shared):
    path = shared / "data" / "corpora" / "book-raw-crlf.txt"
    lines = book_text(path.read_bytes().decode()).split("\n")
    text = "\n".join(lines)
    assert "Gutenberg" not in text
    assert "Produced by" not in text
    assert "Illustration" not in text
    assert text.startswith("“TO THE PURE ALL THINGS ARE PURE.”\n(Puris omnia pura)\n—Arab Proverb.")
    note = next(line for line in lines if line.startswith("Blue, azure."))
    assert note.endswith("a traveller’s tale.")
    # Verses: a line each. Prose: hardly a line ends without a mark, and none as wide as the page.
    assert "Fortune had ruth upon my plight ✿ Pitied my long long bane and blight;" in lines
    long = [line for line in lines if len(line) > 75]
    assert sum(map(len, long)) > 0.85 * len(text)
    assert sum(line[-1].isalpha() for line in long) < 0.05 * len(long)
