"""Damaged bytes make the native decoder panic, hundreds of times: without a backtrace each."""

import os

os.environ["RUST_BACKTRACE"] = "0"
