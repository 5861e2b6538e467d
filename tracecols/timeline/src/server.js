// Questions to the server; its answers are a head (JSON) and arrays.

const TYPES = { f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, i2: Int16Array, u2: Uint16Array, i1: Int8Array, u1: Uint8Array };
const page = Math.random().toString(36).slice(2);
let number = 0;

/** What the page is about besides the run: the phase that it shows folded. */
export const FOLDED = location.pathname.endsWith("/fold") ? { phase: "", ...Object.fromEntries(new URLSearchParams(location.search)) } : null;

/** Decode an answer: {says, arrays}; arrays by name, with their `shape`. */
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const says = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const { name, type, shape, at } of says.arrays) {
    const n = shape.reduce((a, b) => a * b, 1);
    arrays[name] = new TYPES[type](buffer, 4 + length + at, n);
    arrays[name].shape = shape;
  }
  return { says, arrays };
}

/**
 * Ask; what is superseded gives null, what is wrong an error with the reason. A view is superseded by the next one of this page, unless
 * it is given another page. What the paths of the second of two runs begin with is the base.
 */
export async function ask(name, given = {}, signal = undefined, base = "") {
  const query = new URLSearchParams({ ...given, ...FOLDED, ...(name === "view" && !("page" in given) ? { page: `${page}${base}`, number: ++number } : {}) });
  let answer;
  try {
    answer = await fetch(`${base}data/${name}?${query}`, { signal, credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw new Error("the server does not answer: was tracecols view ended?");
  }
  if (answer.status === 409) return null;
  if (!answer.ok) {
    const text = await answer.text();
    let reason = text;
    try {
      reason = JSON.parse(text).error;
    } catch {}
    throw new Error(reason);
  }
  try {
    return decode(await answer.arrayBuffer());
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw error;
  }
}
