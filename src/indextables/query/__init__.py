"""What does a predicate mean? A tree, its parser, exact evaluation and pruning; pure."""
