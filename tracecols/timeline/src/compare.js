// Two runs on one page: one zoom for both, where their times are aligned, and the difference of their cells.
import { imageOfDifference } from "./draw.js";
import { ask } from "./server.js";
import { toAddress } from "./state.js";

/** Whether the page shows two runs. */
export const COMPARED = location.pathname.endsWith("/compare");

export class Pair {
  /** `abouts` of both runs; the address says what is wanted. */
  constructor(abouts, hash) {
    this.abouts = abouts;
    this.views = [];
    // what was asked for last, which may not be possible
    this.asked = null;
    this.take(hash);
  }

  /** Take what an address says of the alignment and the difference; `hashes` are the parts about each run. */
  take(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    this.wanted = { by: given.get("by") ?? "focus", of: given.get("of") ?? "", k: Math.max(0, Math.trunc(Number(given.get("k"))) || 0) };
    const part = given.get("difference") ?? "";
    this.part = this.parts.some(([id]) => id === part) ? part : "";
    this.hashes = [hash, `#${given.get("b") ?? ""}`];
  }

  /** All that the difference can be of: [id, title] of the classes of time and of the properties of both runs. */
  get parts() {
    const found = new Map();
    for (const about of this.abouts) about.classes.forEach((id, i) => found.set(id, about.titles[i]));
    for (const { severities } of this.abouts) for (const [id, { title }] of Object.entries(severities)) if (!found.has(id)) found.set(id, title);
    return [...found];
  }

  get address() {
    const [first, second] = this.views.map(({ state, about }) => toAddress(state, about));
    const { by, of, k } = this.wanted;
    const said = { by, ...(by === "phase" ? { of, k } : {}), ...(this.part ? { difference: this.part } : {}), b: second.slice(1) };
    return `${first}${first === "#" ? "" : "&"}${new URLSearchParams(said)}`;
  }

  /** Align the runs; an error says why this cannot be, and all stays as it was. */
  async align(wanted) {
    this.asked = wanted;
    const { says } = await ask("alignment", wanted);
    this.found = says;
    this.asked = this.wanted = { by: says.way, of: says.phase ?? wanted.of, k: says.k ?? wanted.k };
    const [a, b] = this.abouts;
    const ends = [0, a.length + 1, this.toFirst(0), this.toFirst(b.length + 1)];
    a.span = [Math.floor(Math.min(...ends)), Math.ceil(Math.max(...ends))];
    b.span = a.span.map((t) => Math.round(this.toSecond(t)));
  }

  get scale() {
    return this.abouts[1].resolution / this.abouts[0].resolution;
  }

  toSecond(ticks) {
    return this.found.second + (ticks - this.found.first) * this.scale;
  }

  toFirst(ticks) {
    return this.found.first + (ticks - this.found.second) / this.scale;
  }

  /** Let the second run show what the first one shows. */
  follow() {
    const [{ state }, second] = this.views;
    if (!second) return;
    const from = Math.round(this.toSecond(state.from));
    const to = Math.max(Math.round(this.toSecond(state.to)), from + 1);
    if (second.state.from === from && second.state.to === to) return;
    Object.assign(second.state, { from, to });
    second.changed();
  }

  /** Ask for the difference of some rows of the second run within what is shown; null if there is none. */
  async difference(rows, columns, signal) {
    const [from, to] = this.views[0].withinRun;
    if (!this.part || from >= to) return null;
    const { first, second } = this.found;
    const found = await ask("difference", { from, to, rows: rows.join(), columns, part: this.part, first, second }, signal);
    return found && { ...found, rows, cells: imageOfDifference(found, rows) };
  }
}
