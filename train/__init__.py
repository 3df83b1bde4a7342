"""The trainer: reads a finished data set, trains BERT on it, writes what ``transformers`` loads.

It imports the contracts in ``schemas`` and the kernel of the masks in ``transforms.masking``, nothing
else of this project, and is the only place where torch is imported.
"""
