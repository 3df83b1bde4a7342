"""The dataset card: the README.md of a data set, with the YAML that `datasets` reads.

``datasets.load_dataset(DIR, "seq128")`` finds the shards by it. Like the manifest it holds no time,
host or absolute path.
"""

from __future__ import annotations

from schemas.manifest import DataSet, Manifest

__all__ = ["dataset_card"]

_COLUMNS = (
    ("input_ids", "token ids of `[CLS] A [SEP] B [SEP]`, masked, unpadded"),
    ("token_type_ids", "0 up to the first `[SEP]`, 1 after it"),
    ("masked_lm_positions", "ascending positions of the tokens to predict"),
    ("masked_lm_ids", "the original ids at those positions"),
    ("next_sentence_label", "**0 = IsNext, 1 = NotNext**"),
    ("num_tokens", "length of the row"),
)


def _yaml(manifest: Manifest) -> list[str]:
    lines = ["---", "configs:"]
    for name in dict.fromkeys(d.name for d in manifest.data_sets):
        lines += [f"- config_name: {name}", "  data_files:"]
        for data_set in manifest.data_sets:
            if data_set.name == name:
                path = f"{name}/{data_set.split}-*.parquet"
                lines += [f"  - split: {data_set.split}", f"    path: {path}"]
    return [*lines, "---"]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.2%}"


def _row(d: DataSet) -> str:
    mean = "-" if d.rates.mean_num_tokens is None else f"{d.rates.mean_num_tokens:.1f}"
    return (
        f"| {d.name} | {d.split} | {d.examples:,} | {len(d.shards)} | "
        f"{sum(s.bytes for s in d.shards) / 1e6:,.1f} | {mean} | {_percent(d.rates.masked)} | "
        f"{_percent(d.rates.not_next)} | {_percent(d.rates.unknown)} |"
    )


def dataset_card(manifest: Manifest) -> str:
    """The card of a finished data set, in Markdown."""
    counts, config = manifest.counts, manifest.configuration
    names = [d.name for d in manifest.data_sets]
    return "\n".join(
        [
            *_yaml(manifest),
            "",
            "# BERT pre-training examples",
            "",
            f"Made by {manifest.created_by.name} {manifest.created_by.version} from "
            f"{counts.documents:,} documents: {counts.sentences:,} sentences, {counts.tokens:,} tokens, "
            f"{config['dupe_factor']} passes, seed {manifest.random_seed}.",
            "",
            "| name | split | examples | shards | MB | mean tokens | masked | NotNext | [UNK] |",
            "|---|---|---|---|---|---|---|---|---|",
            *(_row(d) for d in manifest.data_sets),
            "",
            "| column | holds |",
            "|---|---|",
            *(f"| `{name}` | {what} |" for name, what in _COLUMNS),
            "",
            "`manifest.json` holds the configuration, every count and the sha256 of every shard; "
            "`tokenizer.json` is the tokenizer that made the ids.",
            "",
            "```python",
            "import datasets",
            f'rows = datasets.load_dataset(".", "{names[0]}", split="train")',
            "```",
            "",
        ]
    )
