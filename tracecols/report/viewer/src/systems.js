import { Forest } from "./forest.js";

/** A tree of places: machines, nodes and processes, or subdomains of the application; locations are its leaves. */
export class SystemTree {
  /** @param {{kind: string[], name: string[], parent: number[], location: number[]}} tree a location is its row, -1 for none */
  constructor({ kind, name, parent, location }, nLocations) {
    this.kind = kind;
    this.name = name;
    this.location = location;
    this.forest = new Forest(parent);
    this.nodeOf = new Int32Array(nLocations).fill(-1);
    location.forEach((row, node) => {
      if (row >= 0) this.nodeOf[row] = node;
    });
  }

  /** The nodes of some locations. */
  nodesOf(rows) {
    return rows.map((row) => this.nodeOf[row]).filter((node) => node >= 0);
  }

  /** Values of locations at their nodes. */
  spread(byLocation) {
    return Float64Array.from(this.location, (row) => (row >= 0 ? byLocation[row] : 0));
  }
}
