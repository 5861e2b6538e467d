/** Numbers for people. */
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];
const UNITS = { sec: "s", occ: "", bytes: "B" };

export const unitName = (unit) => UNITS[unit] ?? unit;
const minus = (text) => text.replace("-", "\u2212");

/** A number of four to five digits and the prefix that belongs to its unit. */
function parts(value, unit) {
  if (Number.isNaN(value)) return ["\u2013", ""];
  if (!Number.isFinite(value)) return [String(value), ""];
  if (value === 0) return ["0", ""];
  const size = Math.abs(value);
  if (unit === "sec") {
    if (size >= 1e5) return [grouped.format(value), ""];
    return [size >= 1000 ? value.toFixed(1) : size >= 1e-4 ? value.toPrecision(size >= 0.01 ? 4 : 3) : value.toExponential(2), ""];
  }
  if (Number.isInteger(value) && size < 1e6) return [grouped.format(value), ""];
  if (size < 1) return [value.toPrecision(3), ""];
  let power = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.95 && power < PREFIXES.length - 1) {
    rest /= 1000;
    power++;
  }
  return [rest.toPrecision(4), PREFIXES[power]];
}

/** A short number. */
export const short = (value, unit) => minus(parts(value, unit).filter(Boolean).join("\u2009"));

/** A short number with its unit. */
export function withUnit(value, unit) {
  const [number, prefix] = parts(value, unit);
  return minus([number, prefix + unitName(unit)].filter(Boolean).join(" "));
}

/** Every digit there is. */
export const full = (value, unit) => `${value} ${unitName(unit)}`.trim();

export function percent(share) {
  if (!Number.isFinite(share)) return "\u2013";
  const text = (100 * share).toFixed(2);
  return text === "-0.00" || text === "0.00" ? (share === 0 ? "0" : share < 0 ? "\u22120.00" : "0.00") : minus(text);
}

export const count = (n, one, many = `${one}s`) => `${grouped.format(n)} ${n === 1 ? one : many}`;

/** Periods in words: phase 3, or bins 3 to 5. */
export const periodText = (periods, from, to = from) => (from === to ? `${periods.kind} ${from}` : `${periods.kind}s ${from}\u2013${to}`);

/** A text of a value; of changes, what grows has a plus. */
export const signed = (text, value, isDifference) => (isDifference && value > 0 ? `+${text}` : text);

/** Of the sizes of the terms: what is left of floating-point numbers that cancel except for their rounding. */
const RESIDUE = 2 ** -50;

/** Take for zero what rounding leaves of sums whose terms, without their signs, amount to sizes. */
export function withoutResidue(sums, sizes) {
  for (let i = 0; i < sums.length; i++) if (Math.abs(sums[i]) <= RESIDUE * sizes[i]) sums[i] = 0;
  return sums;
}
