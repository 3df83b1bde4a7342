"""Package description: what a worker needs is the base, everything else is an extra.

Dataflow builds a worker's copy of the project from this file, so it reads nothing beside itself.
"""

from __future__ import annotations

from setuptools import setup

#: What a worker imports.
WORKER = [
    "apache-beam>=2.76",  # earlier ones leak memory on errors
    "fastavro>=1.10",
    "numba>=0.61",
    "numpy>=2.0",
    "pyarrow>=17",
    "rich>=13.7",
    "sentencex>=1.0.32",  # earlier ones cut elsewhere
    "tokenizers>=0.21",
]

#: The words of Chinese, for ``--word_segmenter jieba``.
CHINESE = ["jieba>=0.42.1"]

#: The text of web pages, for ``--format warc`` and ``html``.
WEB = ["brotli>=1.1", "resiliparse>=2.0.1"]

#: What guesses an encoding, for ``--encoding auto``.
ENCODINGS = ["chardet>=7.0"]

#: Data sets by name, ``hf:NAME``. A saved one needs nothing.
HUB = ["datasets>=4.0"]

#: LanguageTool's rules for sentences, for ``--sentence_splitter best`` and ``srx``.
SENTENCES = ["choppa-srx>=1.0"]

#: The sentences of Thai, for ``--sentence_splitter crfcut``, and for ``best`` where the text is Thai.
THAI = ["pythainlp>=5.4", "python-crfsuite>=0.9.12"]

#: For ``--language auto``.
LANGUAGES = ["py3langid>=0.4"]

#: Object stores: ``gs://`` and ``s3://``.
GOOGLE = ["apache-beam[gcp]>=2.76", "packaging>=24.0"]
AMAZON = ["apache-beam[aws]>=2.76"]

TEST = [
    *AMAZON,
    *CHINESE,
    *ENCODINGS,
    *GOOGLE,
    *HUB,
    *LANGUAGES,
    *SENTENCES,
    *THAI,
    *WEB,
    # With these fastavro writes snappy and zstandard; they are read without.
    "backports.zstd>=1.0; python_version<'3.14'",
    "cramjam>=2.9",
    "gcp-storage-emulator>=2024.8",
    "hypothesis>=6.100",
    "jsonschema>=4.21",
    "moto[server]>=5.0",
    "mwparserfromhell>=0.7",
    "mypy>=1.13",
    "pytest>=8.3",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "ruff>=0.8",
    "zstandard>=0.23",
]

#: What training needs beside what is read with.
TRAIN = [
    "accelerate>=1.1",  # what transformers.Trainer asks for
    "matplotlib>=3.8",
    "safetensors>=0.4",
    "tensorboard>=2.16",
    "torch>=2.4",
    "transformers>=5.0",
]

setup(
    name="bert-data",
    version="0.1.0",
    description="BERT pre-training data on Apache Beam: reproducible to the byte",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=[
        "pipeline",
        "transforms",
        "transforms.formats",
        "schemas",
        "runners",
        "runners.images",
        "train",
    ],
    package_data={
        "runners.images": ["Dockerfile*", "metadata.json"],
        "schemas": ["*.json", "*.avsc"],
        "train": ["recipes/*.json"],
    },
    install_requires=WORKER,
    extras_require={
        "aws": AMAZON,
        "chinese": CHINESE,
        "encodings": ENCODINGS,
        "gcp": GOOGLE,
        "hub": HUB,
        "languages": LANGUAGES,
        "sentences": SENTENCES,
        "test": TEST,
        "thai": THAI,
        "train": TRAIN,
        "web": WEB,
    },
    entry_points={
        "console_scripts": [
            "bert-data = pipeline.cli:command",
            "bert-data-worker = runners.worker:main",
            "bert-train = train.cli:command",
        ]
    },
)
