"""Quantiles of a stream."""

from __future__ import annotations

from tracecols.kernels.kernel import kernel


@kernel
def add_to_quantiles(values, quantiles, heights, places):
    """Add values to estimates of quantiles (P2 algorithm; Jain and Chlamtac 1985, box 1).

    Parameters
    ----------
    values : (n,) float64
        In their order.
    quantiles : (m,) float64
        Between 0 and 1.
    heights : (m, 5) float64
        Five markers of each quantile; the third is the estimate. Begin with the first five values in order.
    places : (m, 5) int64
        Number of values below each marker. Begin with 0 .. 4.
    """
    for m in range(quantiles.size):
        q = quantiles[m]
        step = (0.0, q / 2, q, (1 + q) / 2, 1.0)
        h, at = heights[m], places[m]
        for i in range(values.size):
            x = values[i]
            if x < h[0]:
                h[0] = x
                k = 0
            elif x >= h[4]:
                h[4] = x
                k = 3
            else:
                k = 0
                while x >= h[k + 1]:
                    k += 1
            for j in range(k + 1, 5):
                at[j] += 1
            for j in range(1, 4):
                ahead = at[4] * step[j] - at[j]
                if (ahead >= 1 and at[j + 1] - at[j] > 1) or (ahead <= -1 and at[j - 1] - at[j] < -1):
                    d = 1 if ahead >= 0 else -1
                    left, right = at[j] - at[j - 1], at[j + 1] - at[j]
                    up, down = (h[j + 1] - h[j]) / right, (h[j] - h[j - 1]) / left
                    parabola = h[j] + d / (left + right) * ((left + d) * up + (right - d) * down)
                    if h[j - 1] < parabola < h[j + 1]:
                        h[j] = parabola
                    elif d > 0:
                        h[j] += up
                    else:
                        h[j] -= down
                    at[j] += d
