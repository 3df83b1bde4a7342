"""The dataset card: the README.md of a data set, with the YAML that `datasets` reads.

``datasets.load_dataset(DIR, "seq128")`` finds the shards by it. Like the manifest it holds no time,
host or absolute path.
"""

from __future__ import annotations

from schemas.manifest import DataSet, Manifest

__all__ = ["dataset_card"]


def _columns(manifest: Manifest) -> dict[str, str]:
    """What each column holds, by the names of ``schemas.arrow.example_schema``."""
    labels = ", ".join(f"{n} = {name}" for n, name in manifest.label_convention.items())
    pairs = manifest.objective != "mlm"
    text = "`[CLS] A [SEP] B [SEP]`" if pairs else "`[CLS] tokens [SEP]`"
    masked = manifest.masking == "static" and manifest.layout == "separate"
    found = {"input_ids": f"token ids of {text}, {'' if masked else 'not '}masked, unpadded"}
    if pairs:
        found["token_type_ids"] = "0 up to the first `[SEP]`, 1 after it"
    if manifest.masking == "none":
        found["continues_word"] = "whether a token is of the same word as the one before it"
    elif masked:
        found["masked_lm_positions"] = "ascending positions of the tokens to predict"
        found["masked_lm_ids"] = "the original ids at those positions"
    else:
        found["masked_lm_positions"] = "for each pass, ascending positions of the tokens to predict"
        found["replacement_ids"] = "for each pass, what stands at those positions in it"
    if pairs:
        found["next_sentence_label"] = f"**{labels}**"
    return found | {"num_tokens": "length of the row"}


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
            f"{config['dupe_factor']} passes, seed {manifest.random_seed}, objective "
            f"{manifest.objective}.",
            "",
            "| name | split | examples | shards | MB | mean tokens | masked | "
            f"{manifest.label_convention.get('1', 'label 1')} | [UNK] |",
            "|---|---|---|---|---|---|---|---|---|",
            *(_row(d) for d in manifest.data_sets),
            "",
            "| column | holds |",
            "|---|---|",
            *(f"| `{name}` | {what} |" for name, what in _columns(manifest).items()),
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
