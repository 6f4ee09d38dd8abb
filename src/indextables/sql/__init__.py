"""What does a SELECT see? A pinned snapshot, with `TEXTSEARCH` answered by the index."""
