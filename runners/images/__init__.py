"""What images are made of: Dockerfiles, the compiling of kernels, Dataflow's template."""
