import { Amounts, evaluate } from "./amounts.js";
import { Forest } from "./forest.js";
import { withoutResidue } from "./numbers.js";
import { SystemTree } from "./systems.js";

const VERSION = 1;
const UPPER = 4294967296;

/** Values per location and column of time that are held at once. */
const MAP_CELLS = 1 << 22;
/** The least share of the critical path in a period that is told. */
const LEAST_HELD = 0.05;

/** Decode base64 of a data element. */
export function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Read n integers of up to four bytes, two's complement, byte plane by byte plane. */
function narrow(bytes, at, n, width) {
  const out = new Int32Array(n);
  for (let k = 0; k < width; k++) {
    const plane = bytes.subarray(at + k * n, at + (k + 1) * n);
    const shift = 8 * k;
    for (let i = 0; i < n; i++) out[i] |= plane[i] << shift;
  }
  const spare = 32 - 8 * width;
  if (spare) for (let i = 0; i < n; i++) out[i] = (out[i] << spare) >> spare;
  return out;
}

/** Read a column of values: as numbers, as 64-bit integers, or as the bits of float64. */
function values(bytes, at, n, width, kind) {
  if (width <= 4) {
    const small = narrow(bytes, at, n, width);
    return kind === "large" ? BigInt64Array.from(small, BigInt) : Float64Array.from(small);
  }
  const low = narrow(bytes, at, n, 4);
  const high = narrow(bytes, at + 4 * n, n, width - 4);
  if (kind === "small") {
    const out = new Float64Array(n);
    for (let i = 0; i < n; i++) out[i] = high[i] * UPPER + (low[i] >>> 0);
    return out;
  }
  const words = new Int32Array(2 * n);
  for (let i = 0; i < n; i++) {
    words[2 * i] = low[i];
    words[2 * i + 1] = high[i];
  }
  return kind === "large" ? new BigInt64Array(words.buffer) : new Float64Array(words.buffer);
}

/** Least recently used results up to a number of bytes. */
class Cache {
  constructor(limit) {
    this.limit = limit;
    this.held = new Map();
    this.size = 0;
  }

  get(key, make) {
    const found = this.held.get(key);
    if (found) {
      this.held.delete(key);
      this.held.set(key, found);
      return found.promise;
    }
    const entry = { bytes: 0, promise: null };
    entry.promise = make().then((result) => {
      for (const part of Object.values(result)) entry.bytes += part.byteLength ?? 0;
      this.size += entry.bytes;
      for (const [oldest, old] of this.held) {
        if (this.size <= this.limit || oldest === key) break;
        this.held.delete(oldest);
        this.size -= old.bytes;
      }
      return result;
    });
    entry.promise.catch(() => this.held.delete(key));
    this.held.set(key, entry);
    return entry.promise;
  }
}

/**
 * A severity cube: property-inclusive, call-path-exclusive values per location (thesis 4.14).
 *
 * Blocks are read when a property is asked for. Sums are exact: properties whose sums may exceed 2^53 ticks are added up as
 * 64-bit integers, all others as numbers.
 */
export class Cube {
  /**
   * @param {object} header what container.py writes
   * @param {(block: number) => Promise<Uint8Array>} read a compressed block: 2 p sums, 2 p + 1 cells of property p; of n, 2 n + p
   *   its cells by period
   */
  constructor(header, read) {
    if (header.version !== VERSION) throw new Error(`the data have format ${header.version}, this viewer reads ${VERSION}`);
    this.header = header;
    this.read = read;
    const { properties, regions, call_paths: calls, system, subdomains, locations } = header;
    this.nLocations = locations.rank.length;
    this.properties = new Forest(properties.parent);
    this.calls = new Forest(calls.parent);
    // the user may have said which subdomains of the application locations belong to
    this.systems = { machine: new SystemTree(system, this.nLocations) };
    if (subdomains) this.systems.subdomains = new SystemTree(subdomains, this.nLocations);
    this.stored = properties.stored;
    this.regionOf = calls.region;
    this.callName = (i) => regions.name[calls.region[i]];
    this.callSite = (i) => calls.call_sites[calls.call_site[i]];
    const integers = this.stored.map((s) => (s.kind === "float" ? Number(s.total) : BigInt(s.total)));
    this.totals = this.totalsOf(integers);
    // of a difference shares refer to the total of what was subtracted
    this.totals.whole = this.totals.whole.map((whole, i) => this.stored[i].whole || whole);
    this.isDifference = Boolean(header.difference);
    this.periods = header.periods ?? null;
    this.cache = new Cache(512 << 20);
    this.flat = this.flatten();
  }

  /**
   * Totals of all properties, with and without the properties below them, and what 100 percent are: without sign that of the root.
   * @param {(number | bigint)[]} sums of each property, as they are stored
   */
  totalsOf(sums) {
    const own = sums.slice();
    const sizes = sums.map((v) => Math.abs(Number(v)));
    this.properties.parent.forEach((above, i) => {
      // as in `terms`
      if (above < 0 || this.header.properties.overlaps[i]) return;
      own[above] = typeof own[above] === typeof sums[i] ? own[above] - sums[i] : Number(own[above]) - Number(sums[i]);
      sizes[above] += Math.abs(Number(sums[i]));
    });
    own.forEach((v, i) => {
      if (typeof v === "number") [own[i]] = withoutResidue([v], [sizes[i]]);
    });
    const inUnits = (v, i) => Number(v) / this.stored[i].scale;
    const inclusive = sums.map(inUnits);
    const without = own.map(inUnits);
    this.stored.forEach(({ formula }, i) => {
      if (formula) without[i] = inclusive[i] = evaluate(formula.postfix, (k) => inclusive[formula.operands[k]]);
    });
    const whole = inclusive.map((_, i) => Math.abs(inclusive[this.properties.root(i)]));
    return { own: without, inclusive, whole };
  }

  /** What a property is computed from, by which formula; null where it has values of its own. */
  formula(property) {
    return this.stored[property]?.formula ?? null;
  }

  /** Whether nothing of a property was found. */
  isEmpty(property) {
    const { rows, formula } = this.stored[property];
    return !(formula ? formula.operands.some((k) => this.stored[k].rows) : rows);
  }

  /**
   * What selected properties amount to, given how the sums of a selection are found.
   * @param {(selection: [number, boolean][]) => Promise<Record<string, Float64Array>>} find
   * @returns {Promise<Record<string, Amounts>>}
   */
  async amounts(selection, find) {
    const formula = selection.length === 1 ? this.formula(selection[0][0]) : null;
    const found = await Promise.all((formula?.operands.map((k) => [[k, false]]) ?? [selection]).map(find));
    const joined = Object.keys(found[0]).map((name) => [name, new Amounts(found.map((of) => of[name]), formula?.postfix)]);
    return Object.fromEntries(joined);
  }

  /** The flat view: regions of one name, file and line, and below each its call paths. */
  flatten() {
    const paths = new Map();
    for (let i = 0; i < this.calls.length; i++) {
      const region = this.regionOf[i];
      if (!paths.has(region)) paths.set(region, []);
      paths.get(region).push(i);
    }
    const parent = [];
    const call = [];
    const region = [];
    for (const [number, members] of paths) {
      const above = parent.length;
      parent.push(-1);
      call.push(-1);
      region.push(number);
      for (const i of members) {
        parent.push(above);
        call.push(i);
        region.push(number);
      }
    }
    const forest = new Forest(parent);
    forest.call = Int32Array.from(call);
    forest.region = Int32Array.from(region);
    forest.nodeOf = new Int32Array(this.calls.length);
    call.forEach((i, node) => i >= 0 && (forest.nodeOf[i] = node));
    return forest;
  }

  /** Names from the root to a call path. */
  path(call) {
    return [...this.calls.ancestors(call).reverse(), call].map(this.callName);
  }

  /** How a selection of properties adds up: each once, and where exclusive the children taken off that are parts of it. */
  terms(selection, hasCells = (stored) => stored.rows) {
    const terms = [];
    for (const [property, exclusive] of selection) {
      terms.push([property, 1]);
      if (!exclusive) continue;
      for (const child of this.properties.children(property)) {
        if (!this.header.properties.overlaps[child]) terms.push([child, -1]);
      }
    }
    return terms.filter(([p]) => this.stored[p] && hasCells(this.stored[p]));
  }

  kind(terms) {
    const kinds = new Set(terms.map(([p]) => this.stored[p].kind));
    return kinds.has("float") ? "float" : kinds.has("large") ? "large" : "small";
  }

  /** The form in which a property is added up with others. */
  form(property, kind) {
    return this.stored[property].kind === "float" ? "float" : kind === "large" ? "large" : "small";
  }

  async sums(property, form) {
    return this.cache.get(`s${property}${form}`, async () => {
      const { rows: n, widths } = this.stored[property];
      const bytes = await inflate(await this.read(2 * property));
      const [a, b, c] = widths[0];
      const rows = narrow(bytes, 0, n, a);
      for (let i = 1; i < n; i++) rows[i] += rows[i - 1];
      const counts = narrow(bytes, a * n, n, b);
      const starts = new Int32Array(n + 1);
      for (let i = 0; i < n; i++) starts[i + 1] = starts[i] + counts[i];
      return { rows, starts, sum: values(bytes, (a + b) * n, n, c, form) };
    });
  }

  async cells(property, form) {
    const { rows, starts } = await this.sums(property, form);
    return this.cache.get(`c${property}${form}`, async () => {
      const { cells: n, widths } = this.stored[property];
      const bytes = await inflate(await this.read(2 * property + 1));
      const [a, b] = widths[1];
      const location = narrow(bytes, 0, n, a);
      for (let r = 0; r < rows.length; r++) for (let i = starts[r] + 1; i < starts[r + 1]; i++) location[i] += location[i - 1];
      return { location, value: values(bytes, a * n, n, b, form) };
    });
  }

  scaled(sums, terms) {
    const scale = terms.length ? this.stored[terms[0][0]].scale : 1;
    return Float64Array.from(sums, (v) => Number(v) / scale);
  }

  /**
   * Values per call path of selected properties, over all locations.
   * @param {[number, boolean][]} selection properties, and whether without their children
   * @param {[number, number] | null} scope the first and the last period that count; all of the time without
   * @param {import("./cut.js").CallView} view the tree whose nodes they count at
   * @returns {Promise<{own: Amounts, inclusive: Amounts}>} seconds, occurrences or bytes
   */
  async byCallPath(selection, scope, view) {
    return this.amounts(selection, (of) => this.sumsByCallPath(of, scope, view));
  }

  async sumsByCallPath(selection, scope, view) {
    const result = (sums, terms, isRounded) => {
      const own = view.fold(sums);
      return { own: this.scaled(own, terms), inclusive: this.scaled(view.forest.inclusive(own, isRounded), terms) };
    };
    if (scope) {
      const { sums, terms, isRounded } = await this.within(selection, scope, this.calls.length, ({ call }, r) => call[r]);
      return result(sums, terms, isRounded);
    }
    const terms = this.terms(selection);
    const kind = this.kind(terms);
    const own = kind === "large" ? new BigInt64Array(this.calls.length) : new Float64Array(this.calls.length);
    const sizes = kind === "float" ? new Float64Array(this.calls.length) : null;
    for (const [property, sign] of terms) {
      const { rows, sum } = await this.sums(property, this.form(property, kind));
      if (sign > 0) for (let i = 0; i < rows.length; i++) own[rows[i]] += sum[i];
      else for (let i = 0; i < rows.length; i++) own[rows[i]] -= sum[i];
      if (sizes) for (let i = 0; i < rows.length; i++) sizes[rows[i]] += Math.abs(sum[i]);
    }
    if (sizes) withoutResidue(own, sizes);
    return result(own, terms, kind === "float");
  }

  /**
   * Values per location of selected properties on selected call paths.
   * @param {[number, boolean][]} selection
   * @param {Uint8Array} mask 1 for every call path that counts
   * @param {[number, number] | null} scope the first and the last period that count; all of the time without
   * @returns {Promise<Amounts>}
   */
  async byLocation(selection, mask, scope = null) {
    return (await this.amounts(selection, async (of) => ({ sums: await this.sumsByLocation(of, mask, scope) }))).sums;
  }

  async sumsByLocation(selection, mask, scope) {
    if (scope) {
      const at = ({ call, location }, r) => (mask[call[r]] ? location[r] : -1);
      const { sums, terms } = await this.within(selection, scope, this.nLocations, at);
      return this.scaled(sums, terms);
    }
    const terms = this.terms(selection);
    const kind = this.kind(terms);
    const sums = kind === "large" ? new BigInt64Array(this.nLocations) : new Float64Array(this.nLocations);
    const sizes = kind === "float" ? new Float64Array(this.nLocations) : null;
    for (const [property, sign] of terms) {
      const form = this.form(property, kind);
      const { rows, starts } = await this.sums(property, form);
      if (!rows.some((row) => mask[row])) continue;
      const { location, value } = await this.cells(property, form);
      for (let r = 0; r < rows.length; r++) {
        if (!mask[rows[r]]) continue;
        if (sign > 0) for (let i = starts[r]; i < starts[r + 1]; i++) sums[location[i]] += value[i];
        else for (let i = starts[r]; i < starts[r + 1]; i++) sums[location[i]] -= value[i];
        if (sizes) for (let i = starts[r]; i < starts[r + 1]; i++) sizes[location[i]] += Math.abs(value[i]);
      }
    }
    if (sizes) withoutResidue(sums, sizes);
    return this.scaled(sums, terms);
  }

  /** The cells of a property by period: for every run its call path and location, for every cell its period, -1 outside of all. */
  async periodCells(property, form) {
    return this.cache.get(`t${property}${form}`, async () => {
      const { runs: n, cells, widths } = this.stored[property].periods;
      const bytes = await inflate(await this.read(2 * this.stored.length + property));
      let at = 0;
      const column = (k, length, decode) => {
        const found = decode(bytes, at, length, widths[k], form);
        at += length * widths[k];
        return found;
      };
      const call = column(0, n, narrow);
      for (let i = 1; i < n; i++) call[i] += call[i - 1];
      const location = column(1, n, narrow);
      const counts = column(2, n, narrow);
      const starts = new Int32Array(n + 1);
      for (let i = 0; i < n; i++) starts[i + 1] = starts[i] + counts[i];
      const period = column(3, cells, narrow);
      for (let r = 0; r < n; r++) {
        period[starts[r]] -= 1;
        for (let i = starts[r] + 1; i < starts[r + 1]; i++) period[i] += period[i - 1];
      }
      return { call, location, starts, period, value: column(4, cells, values) };
    });
  }

  /** Add up cells by period of selected properties: `add` is given each run of a call path and location, and adds up its cells. */
  async addPeriods(selection, add) {
    const terms = this.terms(selection, (stored) => stored.periods.runs);
    const kind = this.kind(terms);
    for (const [property, sign] of terms) {
      const cells = await this.periodCells(property, this.form(property, kind));
      for (let r = 0; r < cells.call.length; r++) add(cells, r, sign);
    }
    return terms;
  }

  /** Numbers to add up cells of selected properties by period in; of those that are rounded also their sizes. */
  periodSums(selection, n) {
    const kind = this.kind(this.terms(selection, (stored) => stored.periods.runs));
    return {
      sums: kind === "large" ? new BigInt64Array(n) : new Float64Array(n),
      sizes: kind === "float" ? new Float64Array(n) : null,
    };
  }

  /** Sums of selected properties in some periods: `at` says where the cells of a run count, -1 nowhere. */
  async within(selection, [from, to], n, at) {
    const { sums, sizes } = this.periodSums(selection, n);
    const terms = await this.addPeriods(selection, (cells, r, sign) => {
      const k = at(cells, r);
      if (k < 0) return;
      const { starts, period, value } = cells;
      for (let i = starts[r]; i < starts[r + 1]; i++) {
        if (period[i] < from || period[i] > to) continue;
        if (sign > 0) sums[k] += value[i];
        else sums[k] -= value[i];
        if (sizes) sizes[k] += Math.abs(value[i]);
      }
    });
    if (sizes) withoutResidue(sums, sizes);
    return { sums, terms, isRounded: Boolean(sizes) };
  }

  /**
   * Totals of all properties in some periods, or of some call paths; this reads all of them.
   * @param {[number, number] | null} scope
   * @param {Uint8Array | null} mask 1 for every call path that counts; all of them without
   */
  async totalsWithin(scope, mask) {
    const totals = [];
    const counts = ({ call }, r) => (mask && !mask[call[r]] ? -1 : 0);
    for (let p = 0; p < this.stored.length; p++) {
      const found = scope ? (await this.within([[p, false]], scope, 1, counts)).sums[0] : await this.totalOn(p, mask);
      totals.push(this.stored[p].kind === "float" ? Number(found) : BigInt(found));
    }
    const found = this.totalsOf(totals);
    // of a difference shares refer to what was subtracted, which is known of all of it only
    return this.isDifference ? { ...found, whole: this.totals.whole } : found;
  }

  /** Total of a property on some call paths. */
  async totalOn(property, mask) {
    const { kind, rows: n } = this.stored[property];
    if (!n) return 0;
    const { rows, sum } = await this.sums(property, this.form(property, kind));
    return sum.reduce((total, v, r) => (mask[rows[r]] ? total + v : total), kind === "large" ? 0n : 0);
  }

  /**
   * Values per location and period of selected properties on selected call paths.
   *
   * Of many periods several that follow each other are one column, so that all of it fits into memory.
   * @param {[number, boolean][]} selection
   * @param {Uint8Array} mask 1 for every call path that counts
   */
  async byPeriod(selection, mask) {
    const n = this.periods.begin.length;
    const group = Math.max(1, Math.ceil(n / Math.max(16, Math.min(2048, Math.floor(MAP_CELLS / Math.max(1, this.nLocations))))));
    const columns = Math.ceil(n / group);
    const { map, all } = await this.amounts(selection, (of) => this.sumsByPeriod(of, mask, group, columns));
    const sums = all.map((column) => column.subarray(1));
    return { group, columns, map: map.values, profile: sums.values, sums, outside: all.values[0] };
  }

  async sumsByPeriod(selection, mask, group, columns) {
    const n = this.periods.begin.length;
    // first what is outside of all periods
    const profile = this.periodSums(selection, n + 1);
    const map = this.periodSums(selection, this.nLocations * columns);
    const terms = await this.addPeriods(selection, ({ call, location, starts, period, value }, r, sign) => {
      if (!mask[call[r]]) return;
      const row = location[r] * columns;
      for (let i = starts[r]; i < starts[r + 1]; i++) {
        const v = sign > 0 ? value[i] : -value[i];
        const k = period[i];
        const at = row + Math.floor(k / group);
        profile.sums[k + 1] += v;
        if (k >= 0) map.sums[at] += v;
        if (!profile.sizes) continue;
        profile.sizes[k + 1] += Math.abs(v);
        if (k >= 0) map.sizes[at] += Math.abs(v);
      }
    });
    for (const { sums, sizes } of [profile, map]) if (sizes) withoutResidue(sums, sizes);
    return { map: this.scaled(map.sums, terms), all: this.scaled(profile.sums, terms) };
  }

  /**
   * What the time of each period was spent on, on some call paths: the parts of the profile of all of it, in ticks.
   * @param {Uint8Array} mask 1 for every call path that counts
   */
  async profileOn({ parts }, mask) {
    const n = this.periods.begin.length;
    const of = parts.map(async ({ of, ...part }) => {
      // each with what it has of its own
      const selection = of.map((property) => [property, true]);
      const { sums, sizes } = this.periodSums(selection, n);
      await this.addPeriods(selection, ({ call, starts, period, value }, r, sign) => {
        if (!mask[call[r]]) return;
        for (let i = starts[r]; i < starts[r + 1]; i++) {
          const v = sign > 0 ? value[i] : -value[i];
          if (period[i] < 0) continue;
          sums[period[i]] += v;
          if (sizes) sizes[period[i]] += Math.abs(v);
        }
      });
      if (sizes) withoutResidue(sums, sizes);
      return { ...part, of, values: Array.from(sums, Number) };
    });
    return { parts: await Promise.all(of) };
  }

  /**
   * Who holds the critical path when: shares of its length in each column of `byPeriod`; null of a cube that does not know.
   * @returns {Promise<{columns: number, group: number, held: {column: number, location: number, share: number}[]} | null>}
   */
  async pathByPeriod() {
    const property = this.header.properties.id.indexOf("critical_path");
    if (property < 0 || !this.stored[property].periods?.runs) return null;
    const everywhere = new Uint8Array(this.calls.length).fill(1);
    const { group, columns, map } = await this.byPeriod([[property, false]], everywhere);
    const length = new Float64Array(columns);
    map.forEach((v, at) => (length[at % columns] += v));
    const held = [];
    map.forEach((v, at) => {
      const column = at % columns;
      const share = v / length[column];
      if (share >= LEAST_HELD) held.push({ column, location: Math.floor(at / columns), share });
    });
    return held.length ? { columns, group, held } : null;
  }

  /** Stretches of a source file: the number of the first line, and lines. */
  async sourcesOf(file) {
    const { files } = await this.cache.get("sources", async () =>
      JSON.parse(new TextDecoder().decode(await inflate(await this.read(this.header.sources.block)))),
    );
    return files[file] ?? [];
  }
}
