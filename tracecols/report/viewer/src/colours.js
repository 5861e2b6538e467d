import { piecewise, interpolateRgb } from "d3-interpolate";
import { interpolateViridis, interpolateCividis, interpolateMagma } from "d3-scale-chromatic";
import { rgb } from "d3-color";

// The full spectrum from blue to red as in the thesis. On light ground it darkens towards red, on dark ground the upper end glows,
// so that the order can be seen without seeing the hues; the bar beside every number says it once more.
const LIGHT = ["#a9cdf5", "#74c9d4", "#5fc08f", "#a5bf3a", "#e0a51c", "#ea7317", "#d33a20", "#9c0d2c"];
const DARK = ["#3a5aa8", "#2f86b4", "#2fa38e", "#71b84e", "#cdbb3f", "#f59f3d", "#ff7350", "#ff4f6d"];

const part = (scale, from, to) => (t) => scale(from + (to - from) * t);

export const SCALES = {
  spectrum: { title: "Spectrum", light: piecewise(interpolateRgb, LIGHT), dark: piecewise(interpolateRgb, DARK) },
  viridis: { title: "Viridis", light: (t) => interpolateViridis(1 - t), dark: part(interpolateViridis, 0.15, 1) },
  cividis: { title: "Cividis", light: (t) => interpolateCividis(1 - t), dark: part(interpolateCividis, 0.1, 1) },
  magma: { title: "Magma", light: (t) => interpolateMagma(0.9 - 0.85 * t), dark: part(interpolateMagma, 0.2, 1) },
};

const GREY = { light: "#cfd2d6", dark: "#4a4f57" };

/**
 * Colour of a share: grey below the threshold, else its place in the scale.
 * @param {{scale: string, threshold: number, dark: boolean}} look
 */
export function colour(share, { scale, threshold, dark }) {
  const size = Math.abs(share);
  const theme = dark ? "dark" : "light";
  if (!(size >= threshold) || size === 0) return GREY[theme];
  return SCALES[scale][theme](Math.min(1, size));
}

/** Black or white, whichever is easier to read on a colour. */
export function onColour(text) {
  const { r, g, b } = rgb(text);
  return 0.299 * r + 0.587 * g + 0.114 * b > 150 ? "#16181c" : "#ffffff";
}
