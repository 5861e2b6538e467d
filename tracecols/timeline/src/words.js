// Times, shares and names as text.

/** A duration in ticks, with a unit that fits. */
export function duration(about, ticks) {
  const s = ticks / about.resolution;
  for (const [factor, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "us"]]) if (Math.abs(s) >= factor) return `${digits(s / factor)} ${unit}`;
  return `${digits(s / 1e-9)} ns`;
}

/** A value of a counter: whole numbers as they are. */
export const value = (x) => (Number.isSafeInteger(x) ? x.toLocaleString("en") : Number(x.toPrecision(7)).toString());

const digits = (x) => Number(x.toPrecision(4)).toString();

/** A time as seconds since the start of the recording, without loss. */
export const seconds = (about, ticks) => about.zero + ticks / about.resolution;

/** A time for people: as many decimals as the range needs. */
export function moment(about, ticks, span) {
  const decimals = Math.min(12, Math.max(3, Math.ceil(-Math.log10(span / about.resolution)) + 4));
  return `${seconds(about, ticks).toFixed(decimals).replace(/^-(0\.0*)$/, "$1")} s`;
}

/** Steps of a ruler: round numbers of seconds, at most so many. */
export function steps(about, from, to, most) {
  const span = (to - from) / about.resolution;
  const rough = span / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((k) => k * power >= rough) * power;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  const first = Math.ceil(seconds(about, from) / step);
  for (let k = first; k * step <= seconds(about, to) + step * 1e-9 && found.length < 100; k++)
    found.push([(k * step - about.zero) * about.resolution, `${(k * step).toFixed(decimals)} s`]);
  return found;
}

/** A name as a part of a sentence: the middle of a long one is left out. */
export function shortened(name, most = 120) {
  const letters = [...name];
  return letters.length > most ? `${letters.slice(0, most - 40).join("")}…${letters.slice(-39).join("")}` : name;
}

/** A call path written out, without what is before its last names. */
export function pathOf(about, number, most = 4) {
  const names = [];
  for (let i = number; i >= 0; i = about.parent[i]) names.unshift(about.regions[about.region[i]] ?? "?");
  return (names.length > most ? ".../" : "") + names.slice(-most).join("/");
}

export const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
