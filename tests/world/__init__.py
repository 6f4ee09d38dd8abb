"""What tests share: a clock that they set, a store that counts, a table that is made in one line."""
