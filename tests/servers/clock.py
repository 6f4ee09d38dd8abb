"""An ambient whose waits take no time."""

from __future__ import annotations

from indextables.ambient import SystemAmbient


class QuickAmbient(SystemAmbient):
    """Real time plus the seconds that were slept through; `slept` lists them."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def monotonic(self) -> float:
        return super().monotonic() + sum(self.slept)

    def __reduce__(self) -> tuple[object, ...]:
        return (QuickAmbient, ())
