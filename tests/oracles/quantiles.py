"""The P2 algorithm as published (Jain and Chlamtac, CACM 28 (10), 1985, box 1), with its indices from 1."""

from __future__ import annotations

from collections.abc import Sequence


class P2:
    """Estimate one quantile of a sequence."""

    def __init__(self, p: float, values: Sequence[float]) -> None:
        if len(values) <= 5:
            ordered = sorted(values)
            place = p * (len(ordered) - 1)
            below = int(place)
            above = min(below + 1, len(ordered) - 1)
            self.estimate = ordered[below] + (place - below) * (ordered[above] - ordered[below])
            return
        q = [None, *sorted(values[:5])]
        n = [None, 1, 2, 3, 4, 5]
        desired = [None, 1, 1 + 2 * p, 1 + 4 * p, 3 + 2 * p, 5]
        increment = [None, 0, p / 2, p, (1 + p) / 2, 1]
        for x in values[5:]:
            if x < q[1]:
                q[1], k = x, 1
            elif x >= q[5]:
                q[5], k = x, 4
            else:
                k = next(i for i in (1, 2, 3, 4) if q[i] <= x < q[i + 1])
            for i in range(k + 1, 6):
                n[i] += 1
            for i in range(1, 6):
                desired[i] += increment[i]
            for i in (2, 3, 4):
                d = desired[i] - n[i]
                if (d >= 1 and n[i + 1] - n[i] > 1) or (d <= -1 and n[i - 1] - n[i] < -1):
                    d = 1 if d >= 0 else -1
                    parabolic = q[i] + d / (n[i + 1] - n[i - 1]) * (
                        (n[i] - n[i - 1] + d) * (q[i + 1] - q[i]) / (n[i + 1] - n[i])
                        + (n[i + 1] - n[i] - d) * (q[i] - q[i - 1]) / (n[i] - n[i - 1])
                    )
                    if q[i - 1] < parabolic < q[i + 1]:
                        q[i] = parabolic
                    else:
                        q[i] += d * (q[i + d] - q[i]) / (n[i + d] - n[i])
                    n[i] += d
        self.estimate = q[3]
