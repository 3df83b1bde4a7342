"""Package description: what a worker needs is the base, everything else is an extra.

Dataflow builds a worker's copy of the project from this file, so it reads nothing beside itself.
"""

from __future__ import annotations

from setuptools import setup

#: What a worker imports.
WORKER = [
    "apache-beam>=2.76",  # earlier ones leak memory on errors
    "numba>=0.61",
    "numpy>=2.0",
    "pyarrow>=17",
    "rich>=13.7",
    "sentencex>=1.0.32",  # earlier ones cut elsewhere
    "tokenizers>=0.21",
]

TEST = [
    "datasets>=4.0",
    "hypothesis>=6.100",
    "jsonschema>=4.21",
    "mypy>=1.13",
    "pytest>=8.3",
    "pytest-xdist>=3.6",
    "ruff>=0.8",
    "zstandard>=0.23",
]

#: What training needs beside what is read with.
TRAIN = [
    "safetensors>=0.4",
    "torch>=2.4",
    "transformers>=5.0",
]

setup(
    name="bert-data",
    version="0.1.0",
    description="BERT pre-training data on Apache Beam: reproducible to the byte",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=["pipeline", "transforms", "transforms.formats", "schemas", "runners", "train"],
    package_data={"schemas": ["*.json"]},
    install_requires=WORKER,
    extras_require={"test": TEST, "train": TRAIN},
    entry_points={
        "console_scripts": ["bert-data = pipeline.cli:main", "bert-train = train.cli:main"]
    },
)
