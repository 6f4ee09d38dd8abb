"""How is a version kept whole? Checkpoints in every format, retention and repair."""
