"""The faults that ``bert-data check`` has to find, each with the rules that it breaks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from tests import fault_files as files
from tests import fault_rows as in_rows
from tests.faults import Planter

__all__ = ["FAULTS", "Fault"]


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault, and the rules that it breaks; rates and histogram may be wrong with them.

    A ``*`` among the rules: others as well.
    """

    name: str
    rules: set[str]
    plant: Callable[[Planter], object]
    kind: str = "nsp"
    corpus: bool = False


FAULTS = [
    Fault("flipped label", {"not_next"}, in_rows.changed(in_rows.flip, in_rows.is_next)),
    Fault("flipped label to IsNext", {"is_next"}, in_rows.changed(in_rows.flip, in_rows.not_next)),
    Fault(
        "impossible label", {"label"}, in_rows.changed(in_rows.setting("next_sentence_label", 2))
    ),
    Fault("mask on [SEP]", {"masked_special"}, lambda p: in_rows.move_mask(p, "[SEP]")),
    Fault("mask on [CLS]", {"masked_special"}, lambda p: in_rows.move_mask(p, "[CLS]")),
    Fault("half-masked word", {"half_word", "too_few_predictions"}, in_rows.half_mask),
    Fault(
        "id out of range",
        {"id_range"},
        in_rows.changed(lambda row: row["input_ids"].__setitem__(3, 60_000)),
    ),
    Fault("swapped shard files", {"sha256", "size", "rows"}, files.swap_names),
    Fault("truncated file", {"sha256", "size", "unreadable"}, files.truncate),
    Fault("one changed byte", {"sha256", "*"}, files.change_byte),
    Fault("changed byte, manifest mended", {"*"}, files.change_byte_and_mend),
    Fault("a row twice", {"row_twice"}, in_rows.twice),
    Fault("a row twice, in two shards", {"row_twice"}, in_rows.twice_in_another_shard),
    Fault("a copied shard", {"row_twice", "same_rows", "same_shard"}, files.copy_shard),
    Fault("a copied file", {"row_twice", "same_rows"}, files.copy_shard_otherwise),
    Fault("a row missing", {"rows", "examples"}, lambda p: in_rows.drop_row(p, counts=False)),
    Fault(
        "a row missing, counts mended",
        {"sentence_missing"},
        lambda p: in_rows.drop_row(p, counts=True),
        corpus=True,
    ),
    Fault(
        "an added row",
        {"rows", "examples", "row_twice"},
        lambda p: in_rows.add_row(p, counts=False),
    ),
    Fault(
        "an added row, counts mended",
        {"row_twice", "sentence_again"},
        lambda p: in_rows.add_row(p, counts=True),
        corpus=True,
    ),
    Fault(
        "wrong num_tokens",
        {"num_tokens"},
        in_rows.changed(in_rows.setting("num_tokens", 99), in_rows.full),
    ),
    Fault("wrong token_type_ids", {"token_types"}, in_rows.changed(in_rows.set_types)),
    Fault("unsorted positions", {"position_order"}, in_rows.changed(in_rows.unsort)),
    Fault(
        "duplicate position",
        {"position_order", "special_inside"},
        in_rows.changed(in_rows.repeat_position),
    ),
    Fault("a pass too many", {"dupe_pass"}, in_rows.changed(in_rows.setting("dupe_pass", 5))),
    Fault(
        "position outside",
        {"position_range"},
        in_rows.changed(lambda row: row["masked_lm_positions"].__setitem__(-1, 500)),
    ),
    Fault("too many predictions", {"predictions"}, in_rows.mask_one_more),
    Fault(
        "wrong masked_lm_ids", {"text", "sentence_missing"}, in_rows.relabel, "plain", corpus=True
    ),
    Fault("random token is special", {"random_special"}, in_rows.randomly_special),
    Fault("counts edited", {"counts"}, files.edit("counts", "sentences"), corpus=True),
    Fault("sum of counts edited", {"manifest"}, files.edit("counts", "examples")),
    Fault("histogram edited", {"histogram"}, files.edit_histogram),
    *(
        Fault(f"rate edited: {name}", {"rate"}, files.edit("data_sets", 0, "rates", name))
        for name in (
            "mean_num_tokens",
            "padding",
            "masked",
            "mask_token",
            "kept_token",
            "random_token",
            "not_next",
            "unknown",
        )
    ),
    Fault(
        "coverage edited",
        {"rate"},
        files.edit("data_sets", 0, "rates", "uncovered_tokens"),
        corpus=True,
    ),
    Fault("tokenizer exchanged", {"tokenizer"}, files.exchange_tokenizer),
    Fault("vocabulary exchanged", {"tokenizer"}, files.exchange_vocabulary),
    Fault(
        "label convention edited",
        {"label_convention"},
        files.edit("label_convention", value={"0": "NotNext", "1": "IsNext"}),
    ),
    Fault(
        "configuration edited",
        {"fingerprint", "share"},
        files.edit("configuration", "not_next_share", value=0.1),
    ),
    Fault("seed edited", {"configuration", "metadata"}, files.edit("random_seed", value=1)),
    Fault(
        "objective edited",
        {"configuration", "label_convention"},
        files.edit("objective", value="sop"),
    ),
    Fault(
        "invalid setting", {"configuration"}, files.edit("configuration", "dupe_factor", value="x")
    ),
    Fault("setting missing", {"configuration"}, lambda p: p.drop("configuration", "dupe_factor")),
    Fault(
        "a special token's id edited",
        {"tokenizer", "structure", "token_types"},
        files.edit("tokenizer", "sep_id", value=70_000),
    ),
    Fault("unknown file", {"unknown_file"}, files.unknown_file),
    Fault("missing file", {"missing"}, lambda p: p.path().unlink()),
    Fault("wrong number of shards in a name", {"shard_name"}, files.renumber),
    Fault(
        "a shard listed twice",
        {"listed_twice", "shard_name", "unknown_file", "examples"},
        files.list_twice,
    ),
    Fault("another column", {"schema"}, files.add_column),
    Fault("metadata of another build", {"metadata"}, files.other_metadata),
    Fault(
        "IsNext that is not next", {"is_next"}, in_rows.changed(in_rows.shift_b, in_rows.is_next)
    ),
    Fault(
        "provenance shifted by a sentence",
        {"text", "sentence_missing"},
        in_rows.changed(
            in_rows.shift_all, lambda row: in_rows.is_next(row) and row["a_first_sentence"] == 0
        ),
        corpus=True,
    ),
    Fault(
        "NotNext from the same document",
        {"not_next"},
        in_rows.changed(in_rows.same_document, in_rows.not_next),
    ),
    Fault(
        "B from elsewhere", {"text", "sentence_missing"}, in_rows.exchange_b, "plain", corpus=True
    ),
    Fault(
        "a document that is not there",
        {"unknown_document", "is_next", "sentence_missing"},
        in_rows.changed(in_rows.invent_document, in_rows.is_next),
        corpus=True,
    ),
    Fault(
        "a document of another shard",
        {"unknown_document", "wrong_block", "sentence_missing"},
        in_rows.name_other_block,
        corpus=True,
    ),
    Fault("cut although not full", {"truncation"}, in_rows.cut_a, "plain", corpus=True),
    Fault(
        "a row in the wrong split",
        {"unknown_document", "wrong_block", "sentence_missing"},
        in_rows.move_to_other_split,
        "split",
        corpus=True,
    ),
    Fault("never kept", {"share"}, in_rows.keep_nothing),
    Fault("one fate, two outcomes", {"unit_fate"}, in_rows.mixed_fate, "word"),
    Fault("sop: label flipped", {"sentence_order"}, in_rows.changed(in_rows.flip), "sop"),
    *(
        Fault(
            f"another token: {name}",
            {"text", "sentence_missing"},
            functools.partial(in_rows.retoken, at=at),
            "plain",
            corpus=True,
        )
        for name, at in (
            ("the first of A", lambda row: 1),
            ("the last of A", in_rows.last_of_a),
            ("the first of B", lambda row: in_rows.last_of_a(row) + 2),
            ("the last of B", in_rows.last_of_b),
        )
    ),
    Fault(
        "sop: label of a sentence in two parts",
        {"sentence_order"},
        in_rows.changed(in_rows.flip, in_rows.is_split),
        "sop",
        corpus=True,
    ),
    *(
        Fault(
            f"mlm: another token, {name}, {number} documents",
            {"text", "tokens_missing"},
            functools.partial(in_rows.retoken, at=at, where=in_rows.of_documents(number)),
            "mlm",
            corpus=True,
        )
        for number in (1, 2)
        for name, at in (("the first", lambda row: 1), ("the last", in_rows.last_of_b))
    ),
    Fault(
        "mlm: [SEP] missing", {"structure", "packing"}, in_rows.changed(in_rows.without_sep), "mlm"
    ),
    Fault("mlm: rows that are not full", {"packing"}, in_rows.shorten, "mlm"),
    Fault(
        "mlm: another sentence",
        {"text", "tokens_missing"},
        in_rows.changed(in_rows.change_first_document, lambda row: len(row["documents"]) == 1),
        "mlm",
        corpus=True,
    ),
    Fault(
        "mlm: a row missing",
        {"tokens_missing"},
        lambda p: in_rows.drop_row(p, counts=True),
        "mlm",
        corpus=True,
    ),
    Fault("none: a mask", {"special_inside"}, in_rows.mask_present, "none"),
    Fault("none: continues_word", {"continues_word"}, in_rows.joined, "none"),
    Fault(
        "shared: a replacement missing",
        {"list_lengths"},
        in_rows.changed(in_rows.drop_replacement),
        "shared",
    ),
    Fault("shared: a pass missing", {"passes"}, in_rows.changed(in_rows.drop_pass), "shared"),
    Fault("shared: replacement is special", {"random_special"}, in_rows.replace_by_other, "shared"),
]
