/**
 * Where locations stand on a grid.
 *
 * @param {{dimensions: {name: string, size: number}[], coordinates: (number[] | null)[]}} topology
 * @param {number[]} axes dimensions drawn as x, y and z; -1 none
 * @param {(number | null)[]} slice per dimension the coordinate to show, null for the sum over all
 * @param {(rows: number[]) => number} together what some locations have
 * @returns {{sizes: number[], places: {at: number[], value: number, rows: number[]}[]}}
 */
export function layOut(topology, axes, slice, together) {
  const sizes = axes.map((d) => (d < 0 ? 1 : sizeOf(topology, d)));
  const found = new Map();
  topology.coordinates.forEach((coordinate, row) => {
    if (!coordinate) return;
    for (let d = 0; d < coordinate.length; d++) if (!axes.includes(d) && slice[d] != null && coordinate[d] !== slice[d]) return;
    const at = axes.map((d) => (d < 0 ? 0 : coordinate[d]));
    const key = (at[2] * sizes[1] + at[1]) * sizes[0] + at[0];
    if (!found.has(key)) found.set(key, { at, value: 0, rows: [] });
    found.get(key).rows.push(row);
  });
  for (const place of found.values()) place.value = together(place.rows);
  return { sizes, places: [...found.keys()].sort((a, b) => a - b).map((key) => found.get(key)) };
}

/** Size of a dimension; where it is not known, as far as the coordinates go. */
export function sizeOf(topology, d) {
  const known = topology.dimensions[d].size;
  if (known > 0) return known;
  return topology.coordinates.reduce((most, c) => (c ? Math.max(most, c[d] + 1) : most), 1);
}

/**
 * A parallel projection: planes of constant z one below the other, y runs back into each plane.
 *
 * A plane seen from above (angle 90) is a grid of squares; smaller angles lay it flat.
 */
export class Projection {
  constructor(sizes, { cell, distance, angle, columns }) {
    const radians = (angle * Math.PI) / 180;
    this.sizes = sizes;
    this.cell = cell;
    this.columns = columns ?? sizes[0];
    const rows = columns ? Math.ceil(sizes[0] / columns) : sizes[1];
    this.rows = rows;
    this.shear = cell * 0.6 * Math.cos(radians);
    this.rise = cell * Math.sin(radians);
    this.step = sizes[2] > 1 ? distance * rows * this.rise : 0;
    this.width = this.columns * cell + rows * this.shear;
    this.height = rows * this.rise + (sizes[2] - 1) * this.step;
  }

  cellOf([x, y]) {
    return this.rows !== this.sizes[1] ? [x % this.columns, Math.floor(x / this.columns)] : [x, y];
  }

  /** The four corners of a place. */
  corners(at) {
    const [x, y] = this.cellOf(at);
    const corner = (dx, dy) => [(x + dx) * this.cell + (this.rows - y - dy) * this.shear, (y + dy) * this.rise + at[2] * this.step];
    return [corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
  }

  /** Coordinates under a point, of the plane in front; null outside. */
  find(px, py) {
    for (let z = this.sizes[2] - 1; z >= 0; z--) {
      const row = (py - z * this.step) / this.rise;
      if (row < 0 || row >= this.rows) continue;
      const column = (px - (this.rows - row) * this.shear) / this.cell;
      if (column < 0 || column >= this.columns) continue;
      const [x, y] = [Math.floor(column), Math.floor(row)];
      if (this.rows === this.sizes[1]) return [x, y, z];
      if (y * this.columns + x < this.sizes[0]) return [y * this.columns + x, 0, z];
    }
    return null;
  }
}
