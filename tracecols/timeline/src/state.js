// What the page shows, and how the address says it.

/** The state that an address says; whatever makes no sense is left out. */
export function fromAddress(hash, about) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const whole = (name, most) => {
    const value = Number(given.get(name) ?? "x");
    return Number.isInteger(value) && value >= 0 && value <= most ? value : undefined;
  };
  const time = (name) => {
    const value = Number(given.get(name) ?? "x");
    return Number.isInteger(value) && value >= about.span[0] && value <= about.span[1] ? value : undefined;
  };
  let [from, to] = [time("from"), time("to")];
  if (from === undefined || to === undefined || from >= to) [from, to] = about.span;
  const rows = (given.get("closed") ?? "").split(",").filter(Boolean).map(Number).filter((i) => about.rows[i] && about.rows[i].location < 0);
  const wait = (given.get("wait") ?? "").split(",").map(Number);
  const severity = given.get("severity") ?? "";
  const at = whole("at", 1e9);
  const row = at === undefined ? -1 : about.rows.findIndex((r) => r.location === at);
  return {
    from,
    to,
    closed: new Set(rows),
    flames: new Set((given.get("flames") ?? "").split(",").filter(Boolean).map(Number).filter((i) => about.rows[i]?.location >= 0)),
    wait: wait.length === 3 && wait.every(Number.isInteger) ? { location: wait[0], begin: wait[1], end: wait[2] } : null,
    severity: Object.hasOwn(about.severities, severity) ? severity : "",
    region: given.has("region") ? about.regions.indexOf(given.get("region")) : -1,
    counters: about.has_counters && whole("counters", 1) === 1,
    path: Math.min(whole("path", 2) ?? 0, 2),
    row: row >= 0 ? row : (whole("row", about.rows.length - 1) ?? Math.min(1, about.rows.length - 1)),
  };
}

/** The address of a state. */
export function toAddress(state, about) {
  const said = [];
  if (state.from !== about.span[0] || state.to !== about.span[1]) said.push(`from=${state.from}`, `to=${state.to}`);
  if (state.closed.size) said.push(`closed=${[...state.closed].sort((a, b) => a - b)}`);
  if (state.flames.size) said.push(`flames=${[...state.flames].sort((a, b) => a - b)}`);
  const { wait } = state;
  if (wait) said.push(`wait=${wait.location},${wait.begin},${wait.end}`);
  if (state.severity) said.push(`severity=${encodeURIComponent(state.severity)}`);
  if (state.region >= 0) said.push(`region=${encodeURIComponent(about.regions[state.region])}`);
  if (state.counters) said.push("counters=1");
  if (state.path) said.push(`path=${state.path}`);
  if (state.row !== 1) said.push(`row=${state.row}`);
  return `#${said.join("&")}`;
}

/** Keep a range of time within what can be shown (the run, or two runs), and at least a few ticks long. */
export function kept(from, to, about) {
  const [begin, end] = about.span;
  const span = Math.min(Math.max(Math.round(to - from), 10), end - begin);
  const first = Math.min(Math.max(Math.round(from), begin), end - span);
  return { from: first, to: first + span };
}

/** The rows that are shown: [row, level], those below closed rows left out. */
export function shownRows(about, closed) {
  const level = new Map([[0, -1]]);
  const found = [];
  about.rows.forEach((row, i) => {
    if (i === 0 || !level.has(row.parent) || (row.parent !== 0 && closed.has(row.parent))) return;
    level.set(i, level.get(row.parent) + 1);
    found.push([i, level.get(i)]);
  });
  return found;
}

/**
 * The address of the trees of what is selected: of a range of time, at a row, and at a wait, an instance of a region, or the call
 * path of a cell.
 */
export function treesAddress(view) {
  const { about, state, chosen } = view;
  if (about.folded) {
    const { from, to, at } = placeOf(view);
    return `trees?${new URLSearchParams({ from, to, row: 0, timeline: `from=${from}&to=${to}&at=${at}` })}`;
  }
  const [from, to] = view.range ?? view.withinRun;
  const said = new URLSearchParams({ from, to, row: state.row });
  const property = chosen?.kind === "wait" ? (about.waits[chosen.property]?.id ?? "") : state.severity;
  if (property) said.set("property", property);
  if (chosen?.kind === "slice") said.set("slice", [chosen.location, chosen.begin, chosen.depth]);
  else if (chosen?.call_path >= 0) said.set("path", chosen.call_path);
  said.set("timeline", toAddress(state, about).slice(1));
  return `trees?${said}`;
}

/** Where the instance of a folded phase that is selected lies in the run: its ends and its location. */
function placeOf({ about, state }) {
  const k = Math.max(0, about.rows[state.row].location);
  return { from: about["fold.begin"][k], to: Math.max(about["fold.end"][k], about["fold.begin"][k] + 1), at: about["fold.location"][k] };
}

/** The address of the timeline at the selected instance of a folded phase. */
export function timelineAddress(view) {
  return `./#${new URLSearchParams(placeOf(view))}`;
}

/** The address of a phase folded, on the locations of the selected row: that of the selected region, else the proposed one. */
export function foldAddress(view) {
  const { about, state } = view;
  const region = state.region >= 0 ? state.region : view.chosenRegion;
  return `fold?${new URLSearchParams({ phase: about.regions[region] ?? "", within: 0 })}`;
}
