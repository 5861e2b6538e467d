// What the page shows, and how the address says it.

/** The state that an address says; whatever makes no sense is left out. */
export function fromAddress(hash, about) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const whole = (name, most) => {
    const value = Number(given.get(name) ?? "x");
    return Number.isInteger(value) && value >= 0 && value <= most ? value : undefined;
  };
  const end = about.length + 1;
  let [from, to] = [whole("from", end), whole("to", end)];
  if (from === undefined || to === undefined || from >= to) [from, to] = [0, end];
  const rows = (given.get("closed") ?? "").split(",").filter(Boolean).map(Number).filter((i) => about.rows[i] && about.rows[i].location < 0);
  const wait = (given.get("wait") ?? "").split(",").map(Number);
  const severity = given.get("severity") ?? "";
  return {
    from,
    to,
    closed: new Set(rows),
    flames: new Set((given.get("flames") ?? "").split(",").filter(Boolean).map(Number).filter((i) => about.rows[i]?.location >= 0)),
    wait: wait.length === 3 && wait.every(Number.isInteger) ? { location: wait[0], begin: wait[1], end: wait[2] } : null,
    severity: Object.hasOwn(about.severities, severity) ? severity : "",
    path: Math.min(whole("path", 2) ?? 0, 2),
    row: whole("row", about.rows.length - 1) ?? Math.min(1, about.rows.length - 1),
  };
}

/** The address of a state. */
export function toAddress(state, about) {
  const said = [];
  if (state.from !== 0 || state.to !== about.length + 1) said.push(`from=${state.from}`, `to=${state.to}`);
  if (state.closed.size) said.push(`closed=${[...state.closed].sort((a, b) => a - b)}`);
  if (state.flames.size) said.push(`flames=${[...state.flames].sort((a, b) => a - b)}`);
  const { wait } = state;
  if (wait) said.push(`wait=${wait.location},${wait.begin},${wait.end}`);
  if (state.severity) said.push(`severity=${encodeURIComponent(state.severity)}`);
  if (state.path) said.push(`path=${state.path}`);
  if (state.row !== 1) said.push(`row=${state.row}`);
  return `#${said.join("&")}`;
}

/** Keep a range of time within the run, and at least a few ticks long. */
export function kept(from, to, about) {
  const end = about.length + 1;
  const span = Math.min(Math.max(Math.round(to - from), 10), end);
  const first = Math.min(Math.max(Math.round(from), 0), end - span);
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
