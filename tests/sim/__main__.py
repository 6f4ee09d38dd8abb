"""`python -m tests.sim SEED`: play one schedule and print its trace."""

from __future__ import annotations

import sys

from tests.sim import schedule


def main() -> int:
    world, outcomes = schedule.build(int(sys.argv[1]))
    world.lines = []
    code = 0
    try:
        world.run()
        schedule.settle(world, outcomes)
    except Exception as error:  # noqa: BLE001 - the story is what is wanted
        world.lines.append(repr(error))
        code = 1
    print("\n".join(world.lines))
    print(f"steps {world.steps}, local {world.local}, trace {world.trace.hexdigest()}, {dict(outcomes)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
