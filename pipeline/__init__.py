"""What is built, and the command line."""
