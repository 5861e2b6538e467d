import { piecewise, interpolateRgb } from "d3-interpolate";
import { interpolateViridis, interpolateCividis, interpolateMagma } from "d3-scale-chromatic";

// The full spectrum from blue to red as in the thesis. On light ground brightness falls all the way (L* 83 to 30); on dark ground it
// rises to yellow and falls to red. Colours two tenths apart differ by at least 9 (CIE76), also as deuteranopes and protanopes see them
// (simulation of Machado 2009); the bar beside every number says it once more.
const LIGHT = ["#b3d4f7", "#83d3dc", "#76cc93", "#aabf3a", "#d09a1a", "#d96d17", "#c53320", "#8a0c2b"];
const DARK = ["#33509c", "#2b78ad", "#2a9a94", "#5aae62", "#e3cf4a", "#f6a23c", "#f4693f", "#f0395f"];

const part = (scale, from, to) => (t) => scale(from + (to - from) * t);

export const SCALES = {
  spectrum: { title: "Spectrum", light: piecewise(interpolateRgb, LIGHT), dark: piecewise(interpolateRgb, DARK) },
  viridis: { title: "Viridis", light: (t) => interpolateViridis(1 - t), dark: part(interpolateViridis, 0.15, 1) },
  cividis: { title: "Cividis", light: (t) => interpolateCividis(1 - t), dark: part(interpolateCividis, 0.1, 1) },
  magma: { title: "Magma", light: (t) => interpolateMagma(0.9 - 0.85 * t), dark: part(interpolateMagma, 0.2, 1) },
};

// what shrinks is blue, what grows is red: told apart without hues by their hatching and sign
const CHANGES = {
  light: {
    grows: piecewise(interpolateRgb, ["#f7cdb8", "#e0764d", "#a50f26"]),
    shrinks: piecewise(interpolateRgb, ["#c4dcf0", "#4f97cf", "#0b4a8f"]),
  },
  dark: {
    grows: piecewise(interpolateRgb, ["#7d3b2a", "#d4603c", "#ff9d7a"]),
    shrinks: piecewise(interpolateRgb, ["#27486e", "#3f87c4", "#8cc8ff"]),
  },
};

const GREY = { light: "#cfd2d6", dark: "#4a4f57" };

/**
 * Colour of a share: grey below the threshold, else its place in the scale.
 * @param {{scale: string, threshold: number, dark: boolean, changes: boolean}} look changes: red where it grows, blue where it shrinks
 */
export function colour(share, { scale, threshold, dark, changes }) {
  const size = Math.abs(share);
  const theme = dark ? "dark" : "light";
  if (!(size >= threshold) || size === 0) return GREY[theme];
  if (changes) return CHANGES[theme][share > 0 ? "grows" : "shrinks"](Math.min(1, size));
  return SCALES[scale][theme](Math.min(1, size));
}

/** Black or white: what can be read on a colour, `rgb(...)` or `#rrggbb`. */
export function inkOn(fill) {
  const parts = fill.startsWith("#") ? fill.match(/[0-9a-f]{2}/gi).map((v) => parseInt(v, 16)) : fill.match(/[\d.]+/g).map(Number);
  const [r, g, b] = parts.map((v) => (v / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.19 ? "#14161a" : "#ffffff";
}

// parts of the time: told apart as deuteranopes see them, too; what is lost is warm, what is idle grey
const PARTS = { comp: "#4c8fd6", mpi: "#e3b341", waits: "#c8442f", omp_time: "#8a6cc9", omp_idle_threads: "#b4bac2", overhead: "#6f5b4b" };
const OTHER_PARTS = ["#3fa39b", "#d37ba6", "#7a9a3a", "#5d6d7e"];

/** The colour of a part of the time; those without one of their own take turns. */
export const partColour = (id, k) => PARTS[id] ?? OTHER_PARTS[k % OTHER_PARTS.length];
