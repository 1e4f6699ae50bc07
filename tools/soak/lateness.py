"""How late callbacks came, as a histogram by powers of two of milliseconds."""

import numpy as np

BARS = 16  # the last one is 16 s and more


class Latenesses:
    """Counts by several threads; one that is lost between two of them is no matter here."""

    def __init__(self) -> None:
        self.counts = [0] * BARS

    def add(self, late_s: float) -> None:
        """One."""
        self.counts[min(int(late_s * 1000).bit_length(), BARS - 1)] += 1 if late_s >= 0 else 0

    def add_all(self, late_s: np.ndarray) -> None:
        """Many."""
        bars = np.clip(np.frexp(np.floor(np.maximum(late_s, 0) * 1000))[1], 0, BARS - 1)
        for bar, count in enumerate(np.bincount(bars, minlength=BARS)):
            self.counts[bar] += int(count)

    def bars(self) -> list[tuple[str, int]]:
        """(what it is, how many), without what nothing is beyond."""
        last = max((bar for bar, count in enumerate(self.counts) if count), default=0)
        names = ["under 1 ms", *(f"{2 ** (bar - 1):,} to {2**bar:,} ms" for bar in range(1, BARS))]
        return [*zip(names, self.counts, strict=True)][: last + 1]

    def below(self, share: float) -> str:
        """The bar in which that share of all is reached."""
        so_far, all_of_them = 0, sum(self.counts)
        for name, count in self.bars():
            so_far += count
            if so_far >= share * all_of_them:
                return name
        return "nothing"
