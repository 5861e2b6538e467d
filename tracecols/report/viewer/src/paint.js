/** Pixels of a canvas, at most. */
const MOST = 6e7;

/** What a style sheet calls a colour, of an element. */
export function colourOf(element) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}

/**
 * Draw on a canvas, as sharp as the screen is; the picture can be drawn again by other pens, to be saved.
 * @param {HTMLCanvasElement} canvas
 * @param {(pen: CanvasRenderingContext2D, of: (name: string) => string) => void} draw
 */
export function paint(canvas, width, height, draw) {
  const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(MOST / Math.max(1, width * height)));
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  canvas.picture = { width, height, draw: (other) => draw(other, colourOf(canvas)) };
  pen.font = `10.5px ${getComputedStyle(canvas).fontFamily}`;
  canvas.picture.draw(pen);
}
