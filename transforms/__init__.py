"""The steps of the pipeline, a file each: a pure function under a PTransform."""
