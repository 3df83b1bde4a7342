"""Package description: what a worker needs is the base, everything else is an extra.

Dataflow builds a worker's copy of the project from this file, so it reads nothing beside itself.
"""

from __future__ import annotations

from setuptools import setup

#: What a worker imports.
WORKER = [
    "apache-beam>=2.76",  # earlier ones leak memory on errors
    "fastavro>=1.9",  # Beam brings it; Avro input imports it by name
    "numba>=0.61",
    "numpy>=2.0",
    "pyarrow>=17",
    "rich>=13.7",
    "sentencex>=1.0.32",  # earlier ones cut elsewhere
    "tokenizers>=0.21",
    "zstandard>=0.23",
]

TEST = [
    "datasets>=4.0",
    "hypothesis>=6.100",
    "jsonschema>=4.21",
    "mypy>=1.13",
    "pytest>=8.3",
    "pytest-xdist>=3.6",
    "ruff>=0.8",
]

setup(
    name="bert-data",
    version="0.1.0",
    description="BERT pre-training data on Apache Beam: reproducible to the byte",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=["pipeline", "transforms", "transforms.formats", "schemas", "runners"],
    package_data={"schemas": ["*.json", "*.avsc"]},
    install_requires=WORKER,
    extras_require={"test": TEST},
    entry_points={"console_scripts": ["bert-data = pipeline.cli:main"]},
)
