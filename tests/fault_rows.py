"""Faults of rows; see ``tests.faults``."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults import Planter, Row


def find(row: Row, words: list[list[int]], *, size: int, masked: bool) -> list[int]:
    """A word of so many pieces (2: or more) of which all are, or none is, to be predicted."""
    positions = set(row["masked_lm_positions"])
    for word in words:
        fits = len(word) >= size if size > 1 else len(word) == 1
        if fits and (set(word) <= positions) == masked and bool(set(word) & positions) == masked:
            return word
    return []


def move_mask(planter: Planter, to: str) -> None:
    """A one-piece word that is [MASK] is predicted no more; a special token is, instead."""

    def fate(row: Row) -> list[int]:
        words = [w for w in planter.words(row) if row["input_ids"][w[0]] == planter.mask]
        return find(row, words, size=1, masked=True)

    def move(row: Row) -> None:
        planter.forget(row, fate(row)[0])
        place = 0 if to == "[CLS]" else row["input_ids"].index(planter.sep)
        planter.predict(row, place, planter.mask)

    planter.change(move, where=lambda row: bool(fate(row)))


def half_mask(planter: Planter) -> None:
    planter.change(
        lambda row: planter.forget(row, find(row, planter.words(row), size=2, masked=True)[0]),
        where=lambda row: bool(find(row, planter.words(row), size=2, masked=True)),
    )


def mask_one_more(planter: Planter) -> None:
    def add(row: Row) -> None:
        place = find(row, planter.words(row), size=1, masked=False)[0]
        planter.predict(row, place, row["input_ids"][place])

    planter.change(add, where=lambda row: len(row["masked_lm_ids"]) == 19)


def full(row: Row) -> bool:
    return row["num_tokens"] == 128


def twice(planter: Planter) -> None:
    rows = planter.rows()
    places = [i for i, row in enumerate(rows) if full(row)]
    rows[places[3]] = rows[places[7]]
    planter.write(rows)


def twice_in_another_shard(planter: Planter) -> None:
    rows = planter.rows(1)
    rows[0] = next(row for row in planter.rows(0) if full(row))
    planter.write(rows, 1)


def drop_row(planter: Planter, *, counts: bool) -> None:
    rows = planter.rows()
    del rows[7]
    planter.write(rows, counts=counts)


def add_row(planter: Planter, *, counts: bool) -> None:
    rows = planter.rows()
    planter.write([*rows, next(filter(full, rows))], counts=counts)


def set_types(row: Row) -> None:
    row["token_type_ids"][-1] = 0


def unsort(row: Row) -> None:
    for name in ("masked_lm_positions", "masked_lm_ids"):
        row[name][0], row[name][1] = row[name][1], row[name][0]


def repeat_position(row: Row) -> None:
    row["masked_lm_positions"][1] = row["masked_lm_positions"][0]


def relabel(planter: Planter) -> None:
    other = planter.vocab["the"]
    planter.change(
        lambda row: row["masked_lm_ids"].__setitem__(
            row["masked_lm_ids"].index(next(t for t in row["masked_lm_ids"] if t != other)), other
        )
    )


def randomly_special(planter: Planter) -> None:
    def places(row: Row) -> list[int]:
        pairs = zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True)
        return [p for p, t in pairs if row["input_ids"][p] not in (t, planter.mask)]

    planter.change(
        lambda row: row["input_ids"].__setitem__(places(row)[0], planter.vocab["[PAD]"]),
        where=lambda row: bool(places(row)),
    )


def is_next(row: Row) -> bool:
    return row["next_sentence_label"] == 0


def not_next(row: Row) -> bool:
    return row["next_sentence_label"] == 1


def shift_b(row: Row) -> None:
    row["b_first_sentence"] += 1
    row["b_end_sentence"] += 1


def shift_all(row: Row) -> None:
    for side in "ab":
        row[f"{side}_first_sentence"] += 1
        row[f"{side}_end_sentence"] += 1


def same_document(row: Row) -> None:
    row["b_document"] = row["a_document"]


def exchange_b(planter: Planter) -> None:
    """B's tokens become those of another row, as many as there were; masks of A only."""
    rows = planter.rows()

    def b_of(row: Row) -> slice:
        return slice(row["token_type_ids"].index(1), row["num_tokens"] - 1)

    row, other = [r for r in rows if r["num_tokens"] == 64 and r["token_type_ids"][30] == 1][:2]
    there, here = planter.restored(other)[b_of(other)], b_of(row)
    size = min(len(there), here.stop - here.start)
    for k in range(size):
        place = here.start + k
        if place in row["masked_lm_positions"]:
            row["masked_lm_ids"][row["masked_lm_positions"].index(place)] = there[k]
        row["input_ids"][place] = planter.mask if place in row["masked_lm_positions"] else there[k]
    planter.write(rows)


def invent_document(row: Row) -> None:
    row["a_document"] = b"\x07" * 16


def name_other_block(planter: Planter) -> None:
    row = planter.rows(1)[0]

    def rename(other: Row) -> None:
        for name in ("document", "first_sentence", "end_sentence"):
            other[f"b_{name}"] = row[f"a_{name}"]

    planter.change(rename, where=not_next)


def cut_a(planter: Planter) -> None:
    """A loses its last token, although the row is not full."""

    def last(row: Row) -> int:
        return row["input_ids"].index(planter.sep) - 1

    def cut(row: Row) -> None:
        place = last(row)
        del row["input_ids"][place], row["token_type_ids"][0]
        row["masked_lm_positions"] = [p - (p > place) for p in row["masked_lm_positions"]]
        row["num_tokens"] -= 1

    planter.change(
        cut,
        where=lambda row: (
            row["num_tokens"] in (41, 42, 47, 48, 54, 55)  # as many to predict with one fewer
            and last(row) not in row["masked_lm_positions"]
        ),
    )


def move_to_other_split(planter: Planter) -> None:
    rows = planter.rows(data_set=0)
    rows[5] = planter.rows(data_set=1)[5]
    planter.write(rows, data_set=0)


def keep_nothing(planter: Planter) -> None:
    """Every kept token of the data set is [MASK]."""
    for number in range(len(planter.manifest["data_sets"][0]["shards"])):
        rows = planter.rows(number)
        for row in rows:
            for place, label in zip(row["masked_lm_positions"], row["masked_lm_ids"], strict=True):
                if row["input_ids"][place] == label:
                    row["input_ids"][place] = planter.mask
        planter.write(rows, number)


def mixed_fate(planter: Planter) -> None:
    def masked_word(row: Row) -> list[int]:
        words = [w for w in planter.words(row) if row["input_ids"][w[0]] == planter.mask]
        return find(row, words, size=2, masked=True)

    def keep_last(row: Row) -> None:
        place = masked_word(row)[-1]
        label = row["masked_lm_ids"][row["masked_lm_positions"].index(place)]
        row["input_ids"][place] = label

    planter.change(keep_last, where=lambda row: bool(masked_word(row)))


def flip(row: Row) -> None:
    row["next_sentence_label"] ^= 1


def without_sep(row: Row) -> None:
    row["input_ids"].pop()
    row["num_tokens"] -= 1


def mask_present(planter: Planter) -> None:
    planter.change(lambda row: row["input_ids"].__setitem__(5, planter.mask))


def joined(planter: Planter) -> None:
    """A word that begins is said to go on with the word before."""

    def begins(row: Row) -> int:
        ids = row["input_ids"]
        return next(
            k
            for k in range(2, len(ids) - 1)
            if ids[k] not in planter.subwords and planter.sep not in ids[k - 1 : k + 1]
        )

    planter.change(lambda row: row["continues_word"].__setitem__(begins(row), True))


def drop_replacement(row: Row) -> None:
    row["replacement_ids"][1].pop()


def drop_pass(row: Row) -> None:
    row["replacement_ids"].pop()
    row["masked_lm_positions"].pop()


def replace_by_other(planter: Planter) -> None:
    """In the last pass a token that is no regular one stands in for a masked one."""
    planter.change(lambda row: row["replacement_ids"][2].__setitem__(0, planter.cls))


def shorten(planter: Planter) -> None:
    """Many rows of the packed stream lose their last token, and what was masked there."""
    rows = planter.rows()
    for row in rows:
        place = row["num_tokens"] - 2
        if place in row["masked_lm_positions"] or len(row["input_ids"]) < 128:
            continue
        del row["input_ids"][place]
        row["num_tokens"] -= 1
    planter.write(rows)


def change_first_document(row: Row) -> None:
    row["first_sentences"][0] += 1


def setting(name: str, value: object) -> Callable[[Row], None]:
    return lambda row: row.__setitem__(name, value)


def changed(change: Callable[[Row], None], where=lambda row: True) -> Callable[[Planter], None]:
    return lambda planter: planter.change(change, where=where)


def retoken(
    planter: Planter, at: Callable[[Row], int], *, where: Callable[[Row], bool] = lambda row: True
) -> None:
    """A token that is not masked becomes another: at the edge of a segment, say."""
    other = planter.vocab["the"]

    def fits(row: Row) -> bool:
        place = at(row)
        free = place not in row["masked_lm_positions"]
        return where(row) and free and row["input_ids"][place] != other

    planter.change(lambda row: row["input_ids"].__setitem__(at(row), other), where=fits)


def last_of_a(row: Row) -> int:
    return row["token_type_ids"].index(1) - 2


def last_of_b(row: Row) -> int:
    return row["num_tokens"] - 2


def is_split(row: Row) -> bool:
    """Both parts are of one sentence."""
    return all(row[f"a_{name}_sentence"] == row[f"b_{name}_sentence"] for name in ("first", "end"))


def of_documents(number: int) -> Callable[[Row], bool]:
    """Rows of so many documents."""
    return lambda row: len(row["documents"]) == number
