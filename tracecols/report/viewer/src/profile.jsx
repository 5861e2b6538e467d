import { useLayoutEffect, useRef } from "preact/hooks";
import { partColour } from "./colours.js";
import { percent } from "./numbers.js";
import { paint } from "./paint.js";
import { useSize } from "./ranges.jsx";

/** The parts of a profile with their colours, and their shares of all of it. */
export const ProfileLegend = ({ parts, shares }) => (
  <span class="tc-parts">
    {parts.map(({ id, title }, k) => (
      <span class="tc-part">
        <i style={{ background: partColour(id, k) }} />
        {title}
        {shares && <span class="tc-muted"> {percent(shares[k])} %</span>}
      </span>
    ))}
  </span>
);

/** What periods amount to in a part; of many that share a pixel the mean counts. */
function mean(values, from, to) {
  let sum = 0;
  for (let k = from; k < to; k++) sum += values[k];
  return sum / (to - from);
}

/**
 * Draw what the time of each period was spent on: parts one upon the other, the highest as high as there is room.
 * @param {{parts: {id: string, values: number[]}[]}} profile
 * @param {{left: number, top: number, width: number, height: number}} box
 */
export function drawProfile(pen, { parts }, { left, top, width, height }) {
  const n = parts[0].values.length;
  const step = Math.max(1, Math.floor(n / Math.max(1, width)));
  const columns = Math.ceil(n / step);
  const heights = parts.map(({ values }) => Array.from({ length: columns }, (_, c) => mean(values, c * step, Math.min(n, (c + 1) * step))));
  const sums = Array.from({ length: columns }, (_, c) => heights.reduce((sum, of) => sum + Math.max(0, of[c]), 0));
  const most = Math.max(...sums) || 1;
  for (let c = 0; c < columns; c++) {
    const from = left + (c * step * width) / n;
    const room = (Math.min(n, (c + 1) * step) * width) / n + left - from;
    let base = top + height;
    parts.forEach(({ id }, k) => {
      const tall = (Math.max(0, heights[k][c]) / most) * height;
      if (!tall) return;
      pen.fillStyle = partColour(id, k);
      pen.fillRect(from, base - tall, room > 4 ? room - 1 : room + 0.3, tall);
      base -= tall;
    });
  }
}

/** What the time of the whole run was spent on over time, small. */
export function RunProfile({ model }) {
  const { profile } = model.cube.header;
  const { periods } = model.cube;
  const frame = useRef();
  const canvas = useRef();
  const { width } = useSize(frame);
  const height = 44;
  useLayoutEffect(() => paint(canvas.current, width, height, (pen) => drawProfile(pen, profile, { left: 0, top: 0, width, height })));
  const totals = profile.parts.map(({ values }) => values.reduce((a, b) => a + b, 0));
  const sum = totals.reduce((a, b) => a + b, 0);
  const shares = totals.map((v) => v / sum);
  return (
    <div class="tc-run-profile">
      <h2>Over time, by {periods.kind}</h2>
      <div ref={frame}>
        <canvas
          ref={canvas}
          role="img"
          aria-label={`What the time of ${periods.begin.length} ${periods.kind}s was spent on: ${profile.parts.map(({ title }, k) => `${title} ${percent(shares[k])} %`).join(", ")}`}
          style={{ width: `${width}px`, height: `${height}px` }}
        />
      </div>
      <ProfileLegend parts={profile.parts} shares={shares} />
    </div>
  );
}
