"""`python -m tests.sim SEED`: play one schedule and print its trace."""

from __future__ import annotations

import sys

from tests.sim import schedule
from tests.sim.playing import retold


def main() -> int:
    world, outcomes, error = retold(schedule, int(sys.argv[1]))
    print("\n".join(world.lines or []))
    print(f"steps {world.steps}, local {world.local}, trace {world.trace.hexdigest()}, {dict(outcomes)}")
    return 0 if error is None else 1


if __name__ == "__main__":
    sys.exit(main())
