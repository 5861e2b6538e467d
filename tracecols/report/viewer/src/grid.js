import { colour, inkOn } from "./colours.js";

/** Room around a grid for names and numbers of its axes. */
export const MARGIN = { left: 52, right: 16, top: 36, bottom: 14 };

/** More room on the right for numbers of planes. */
export const DEPTH = 56;

function trace(pen, points) {
  pen.beginPath();
  points.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.closePath();
}

/** Every how many positions there is room for a number. */
const every = (room, needed) => [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((n) => n * room >= needed) ?? 2000;

/** Names and numbers of the axes: x above, y on the left, z beside each plane. */
function drawAxes(pen, of, { projection, sizes, names, origin, isLine }) {
  const { cell, columns, rows } = projection;
  pen.fillStyle = of("--tc-muted");
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  const across = every(cell, 8 + 7 * String(sizes[0] - 1).length);
  for (let x = 0; x < columns; x += across) {
    const [a, b] = projection.corners([x, 0, 0]);
    pen.fillText(String(x), (a[0] + b[0]) / 2, a[1] - 8);
  }
  const [begin] = projection.corners([0, 0, 0]);
  const [, end] = projection.corners([columns - 1, 0, 0]);
  pen.fillText(`${names[0]} \u2192`, (begin[0] + end[0]) / 2, begin[1] - 23);
  pen.textAlign = "right";
  // of a line that is broken the number of the first position of each row
  const down = isLine ? 1 : every(projection.rise, 12);
  for (let y = 0; y < rows; y += down) {
    const [a, , , d] = projection.corners(isLine ? [y * columns, 0, 0] : [0, y, 0]);
    if (isLine ? rows > 1 : sizes[1] > 1) pen.fillText(String(isLine ? y * columns : y), (a[0] + d[0]) / 2 - 6, (a[1] + d[1]) / 2);
  }
  if (!isLine && names[1]) {
    const [corner] = projection.corners([0, 0, 0]);
    pen.fillText(`${names[1]} \u2193`, corner[0] - 6, corner[1] - 8, origin[0] + corner[0] - 8);
  }
  if (sizes[2] > 1) {
    pen.textAlign = "left";
    for (let z = 0; z < sizes[2]; z++) {
      const [, back] = projection.corners([sizes[0] - 1, 0, z]);
      pen.fillText(z ? String(z) : `${names[2]} 0`, back[0] + 7, back[1] + 6, DEPTH);
    }
  }
}

/**
 * Draw severities on a grid, plane by plane.
 * @param {CanvasRenderingContext2D} pen @param {(name: string) => string} of colours of the style sheet
 */
export function drawGrid(pen, of, { projection, sizes, names, places, origin, isLine, share, text, look, marked, cursor }) {
  pen.save();
  pen.translate(...origin);
  drawAxes(pen, of, { projection, sizes, names, origin, isLine });
  const isOutlined = projection.cell > 6;
  const isFlat = projection.shear < 1e-6;
  const texts = isFlat && projection.cell > 20 ? places.map((place) => text(place.value)) : [];
  const fits = texts.length && Math.max(...texts.map((t) => pen.measureText(t).width)) < projection.cell - 4;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  let plane = -1;
  places.forEach((place, k) => {
    for (; plane < place.at[2]; plane++) {
      if (isLine) continue;
      const z = plane + 1;
      const [nx, ny] = [sizes[0] - 1, sizes[1] - 1];
      trace(
        pen,
        [
          [0, 0],
          [nx, 0],
          [nx, ny],
          [0, ny],
        ].map(([x, y], corner) => projection.corners([x, y, z])[corner]),
      );
      pen.globalAlpha = 0.82;
      pen.fillStyle = of("--tc-panel");
      pen.fill();
      pen.globalAlpha = 1;
      pen.strokeStyle = of("--tc-line");
      pen.lineWidth = 1;
      pen.stroke();
    }
    const corners = projection.corners(place.at);
    trace(pen, corners);
    const fill = colour(share(place.value), look);
    pen.fillStyle = fill;
    pen.fill();
    if (isOutlined) {
      pen.strokeStyle = of("--tc-panel");
      pen.lineWidth = 1;
      pen.stroke();
    }
    if (!fits) return;
    pen.fillStyle = inkOn(fill);
    pen.fillText(texts[k], (corners[0][0] + corners[2][0]) / 2, (corners[0][1] + corners[2][1]) / 2);
  });
  pen.strokeStyle = of("--tc-ink");
  pen.lineWidth = 2;
  for (const place of marked) {
    trace(pen, projection.corners(place.at));
    pen.stroke();
  }
  if (cursor) {
    trace(pen, projection.corners(cursor.at));
    pen.lineWidth = 1.5;
    pen.stroke();
  }
  pen.restore();
}
