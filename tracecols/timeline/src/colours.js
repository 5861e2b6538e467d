// Colours of classes of time, in two brightnesses: close to those of Okabe and Ito. Tests simulate colour-blind readers.

const LIGHT = {
  comp: [120, 190, 90], mpi: [213, 94, 0], omp_time: [0, 114, 178], waits: [204, 121, 167], omp_idle_threads: [205, 207, 212], device: [230, 159, 0], other: [70, 74, 82],
};
const DARK = {
  comp: [130, 190, 110], mpi: [226, 112, 30], omp_time: [58, 142, 200], waits: [214, 136, 178], omp_idle_threads: [62, 66, 74], device: [222, 164, 40], other: [196, 200, 208],
};

const GROUND = [[255, 255, 255], [26, 29, 34]];

export const isDark = () => document.documentElement.dataset.theme === "dark";

/** The colour of a class of time. */
export function ofClass(id) {
  const every = isDark() ? DARK : LIGHT;
  if (every[id]) return every[id];
  if (/idle/.test(id)) return every.omp_idle_threads;
  if (/omp|pthread|thread|lock/.test(id)) return every.omp_time;
  if (/device|gpu|cuda|kernel|accel/.test(id)) return every.device;
  if (/mpi|shmem|nccl/.test(id)) return every.mpi;
  return every.other;
}

const CLASSES = {
  mpi: "mpi", shmem: "mpi", openmp: "omp_time", pthread: "omp_time", thread: "omp_time", cuda: "device", hip: "device", opencl: "device", openacc: "device",
};

/** The class of what a region does. */
export const classOf = (paradigm, kind) => (kind === "stream" ? "device" : (CLASSES[paradigm] ?? "comp"));

/** The colour of a region: that of its class, lighter or darker by its name, so that neighbours differ. */
export function ofRegion(name, id) {
  let hash = 7;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) % 9973;
  const shift = ((hash % 7) - 3) * 9;
  return ofClass(id).map((v) => Math.max(0, Math.min(255, v + shift)));
}

/** A colour that recedes: close to the ground. */
export const receding = (colour) => colour.map((v, i) => Math.round(GROUND[isDark() ? 1 : 0][i] * 0.75 + v * 0.25));

/** Shares of the largest cell: from the ground to a strong hue. */
export function ofShare(share) {
  const ground = GROUND[isDark() ? 1 : 0];
  const strong = isDark() ? [255, 176, 120] : [150, 30, 10];
  const t = share <= 0 ? 0 : 0.12 + 0.88 * Math.sqrt(share);
  return ground.map((g, i) => Math.round(g + (strong[i] - g) * t));
}

const MORE = [[179, 88, 6], [255, 176, 96]];
const LESS = [[33, 88, 172], [110, 168, 255]];
const UNKNOWN = [[214, 214, 209], [70, 73, 80]];

/** The colour of a difference in -1..1: orange for more, blue for less, the ground for none, grey for what cannot be compared. */
export function ofDifference(by) {
  const k = isDark() ? 1 : 0;
  if (Number.isNaN(by)) return UNKNOWN[k];
  const t = by === 0 ? 0 : 0.12 + 0.88 * Math.sqrt(Math.min(Math.abs(by), 1));
  return GROUND[k].map((g, i) => Math.round(g + ((by > 0 ? MORE : LESS)[k][i] - g) * t));
}

export const css = ([r, g, b], alpha = 1) => (alpha === 1 ? `rgb(${r} ${g} ${b})` : `rgb(${r} ${g} ${b} / ${alpha})`);

/** A readable colour of text on a colour. */
export const inkOn = ([r, g, b]) => (0.3 * r + 0.59 * g + 0.11 * b > 140 ? "#111" : "#fff");
