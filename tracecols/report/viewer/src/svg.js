/** Write text so that it is nothing but text in a document. */
export const escaped = (text) =>
  String(text).replace(
    /[&<>"'\u0000-\u0008\u000b\u000c\u000e-\u001f]/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" })[c] ?? " ",
  );

const round = (v) => Math.round(v * 100) / 100;

/** A colour as attributes that every program which reads SVG knows: browsers give mixed ones as `color(srgb ...)`. */
function painted(name, paint) {
  const [, kind, inside] = /^(color\(srgb |rgba\()([^)]*)\)$/.exec(paint) ?? [];
  if (!kind) return [[name, paint]];
  const [r, g, b, alpha] = inside.split(/[ ,/]+/).map(Number);
  const parts = kind === "rgba(" ? [r, g, b] : [r, g, b].map((v) => Math.round(255 * v));
  return [
    [name, `rgb(${parts.join(", ")})`],
    [name.replace("-color", "") + "-opacity", alpha],
  ];
}

const PAINTS = ["fill", "stroke", "stop-color"];
const attributes = (given) =>
  Object.entries(given)
    .flatMap(([name, value]) => (PAINTS.includes(name) ? painted(name, value) : [[name, value]]))
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => ` ${name}="${escaped(typeof value === "number" ? round(value) : value)}"`)
    .join("");
const node = (name, given, content) => `<${name}${attributes(given)}${content === undefined ? "/>" : `>${content}</${name}>`}`;

/** A pen for what is drawn on canvases that writes SVG: what `paint` and its users need of CanvasRenderingContext2D. */
export class SvgPen {
  constructor(font) {
    this.out = [];
    this.state = {
      font,
      fillStyle: "#000",
      strokeStyle: "#000",
      lineWidth: 1,
      globalAlpha: 1,
      textAlign: "start",
      textBaseline: "alphabetic",
      dash: [],
      at: [0, 0],
    };
    this.saved = [];
    this.path = "";
    this.measure = document.createElement("canvas").getContext("2d");
    for (const name of ["font", "fillStyle", "strokeStyle", "lineWidth", "globalAlpha", "textAlign", "textBaseline"])
      Object.defineProperty(this, name, { get: () => this.state[name], set: (value) => (this.state[name] = value) });
  }

  save() {
    this.saved.push({ ...this.state });
  }

  restore() {
    this.state = this.saved.pop() ?? this.state;
  }

  translate(x, y) {
    this.state.at = [this.state.at[0] + x, this.state.at[1] + y];
  }

  x = (x) => round(x + this.state.at[0]);
  y = (y) => round(y + this.state.at[1]);

  setLineDash(dash) {
    this.state.dash = dash;
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${this.x(x)} ${this.y(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${this.x(x)} ${this.y(y)}`;
  }

  closePath() {
    this.path += "Z";
  }

  get alpha() {
    return this.state.globalAlpha === 1 ? undefined : this.state.globalAlpha;
  }

  get stroked() {
    const { strokeStyle, lineWidth, dash } = this.state;
    return { fill: "none", stroke: strokeStyle, "stroke-width": lineWidth, "stroke-dasharray": dash.join(" "), opacity: this.alpha };
  }

  fill() {
    this.out.push(node("path", { d: this.path, fill: this.state.fillStyle, opacity: this.alpha }));
  }

  stroke() {
    this.out.push(node("path", { d: this.path, ...this.stroked }));
  }

  box(x, y, width, height) {
    return { x: this.x(Math.min(x, x + width)), y: this.y(Math.min(y, y + height)), width: Math.abs(width), height: Math.abs(height) };
  }

  fillRect(...box) {
    this.out.push(node("rect", { ...this.box(...box), fill: this.state.fillStyle, opacity: this.alpha }));
  }

  strokeRect(...box) {
    this.out.push(node("rect", { ...this.box(...box), ...this.stroked }));
  }

  measureText(text) {
    this.measure.font = this.state.font;
    return this.measure.measureText(text);
  }

  fillText(text, x, y, most = Infinity) {
    const { font, textAlign, textBaseline, fillStyle } = this.state;
    const { width, fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = this.measureText(text);
    const anchor = { center: "middle", right: "end", end: "end" }[textAlign];
    const squeezed = width > most ? { textLength: most, lengthAdjust: "spacingAndGlyphs" } : {};
    const baseline = y + (textBaseline === "middle" ? (up - down) / 2 : 0);
    this.out.push(
      node(
        "text",
        {
          x: this.x(x),
          y: this.y(baseline),
          style: `font:${font}`,
          fill: fillStyle,
          "text-anchor": anchor,
          "xml:space": "preserve",
          ...squeezed,
        },
        escaped(text),
      ),
    );
  }

  drawImage(image, x, y, width, height) {
    const href = image.toDataURL();
    this.out.push(
      node("image", { ...this.box(x, y, width, height), href, preserveAspectRatio: "none", style: "image-rendering:pixelated" }),
    );
  }
}

const isSeen = (paint) => paint && paint !== "transparent" && paint !== "none" && !/^rgba\(.*, 0\)$/.test(paint);

// the shorthand is empty where digits are tabular
const fontOf = (style) => `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;

/** The lines of a text node as the browser broke it: their texts and boxes. */
function linesOf(text) {
  const range = document.createRange();
  range.selectNodeContents(text);
  const whole = range.getClientRects();
  if (whole.length <= 1) return whole.length ? [{ text: text.data, box: whole[0] }] : [];
  const found = [];
  for (const word of text.data.matchAll(/\S+\s*/g)) {
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    const [box] = range.getClientRects();
    const last = found[found.length - 1];
    if (!box) continue;
    if (last && Math.abs(last.box.top - box.top) < 2) last.text += word[0];
    else found.push({ text: word[0], box });
  }
  return found;
}

/** A picture that is in the document already, with the style it has there. */
function copied(element, x, y) {
  const copy = element.cloneNode(true);
  const both = [element, ...element.querySelectorAll("*")].map((from, k) => [from, [copy, ...copy.querySelectorAll("*")][k]]);
  for (const [from, to] of both) {
    const style = getComputedStyle(from);
    // attributes: a page's policy forbids styles
    const names = ["fill-opacity", "fill", "stroke", "stroke-width"];
    if (from.tagName === "text") names.push("font-family", "font-size", "text-anchor");
    for (const name of names)
      for (const [known, value] of painted(name, style.getPropertyValue(name))) if (value !== undefined) to.setAttribute(known, value);
    to.removeAttribute("class");
  }
  return node(
    "g",
    { transform: `translate(${round(x)} ${round(y)})` },
    [...copy.children].map((c) => new XMLSerializer().serializeToString(c)).join(""),
  );
}

/** Draw a part of the page as it is on the screen: grounds, borders, texts and pictures. */
class Copyist {
  constructor(origin) {
    this.origin = origin;
    this.clips = 0;
    this.ids = `c${Math.random().toString(36).slice(2, 8)}`;
  }

  box(rect) {
    return { x: rect.left - this.origin.left, y: rect.top - this.origin.top, width: rect.width, height: rect.height };
  }

  ground(style, box) {
    const rx = Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2) || undefined;
    const gradient = style.backgroundImage.startsWith("linear-gradient(") && [
      ...style.backgroundImage.matchAll(/(rgba?\([^)]*\)|#\w+) ([\d.]+)%/g),
    ];
    if (gradient?.length) {
      const id = `${this.ids}-${this.clips++}`;
      const stops = gradient.map(([, paint, at]) => node("stop", { offset: `${at}%`, "stop-color": paint })).join("");
      return node("linearGradient", { id }, stops) + node("rect", { ...box, rx, fill: `url(#${id})` });
    }
    return isSeen(style.backgroundColor) ? node("rect", { ...box, rx, fill: style.backgroundColor }) : "";
  }

  borders(style, { x, y, width, height }) {
    const sides = { Top: [x, y, x + width, y], Bottom: [x, y + height, x + width, y + height], Left: [x, y, x, y + height] };
    return Object.entries(sides)
      .filter(
        ([side]) =>
          parseFloat(style[`border${side}Width`]) > 0 && style[`border${side}Style`] === "solid" && isSeen(style[`border${side}Color`]),
      )
      .map(([side, [x1, y1, x2, y2]]) =>
        node("line", { x1, y1, x2, y2, stroke: style[`border${side}Color`], "stroke-width": parseFloat(style[`border${side}Width`]) }),
      )
      .join("");
  }

  text(text, style) {
    const pen = new SvgPen(fontOf(style));
    pen.fillStyle = style.color;
    for (const { text: line, box } of linesOf(text)) {
      const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = pen.measureText(line);
      const { x, y, height } = this.box(box);
      pen.fillText(line.replace(/\s+/g, " "), x, y + (height + up - down) / 2);
    }
    return pen.out.join("");
  }

  /** The triangle in front of a row that can be opened. */
  twisty(element, { x, y }) {
    const points = element.classList.contains("tc-open") ? [4.5, 9.5, 12.5, 9.5, 8.5, 14.5] : [6, 8, 11, 12, 6, 16];
    const colour = getComputedStyle(element, "::before").borderLeftColor;
    return node("polygon", { points: points.map((v, k) => round(v + (k % 2 ? y : x))).join(" "), fill: colour });
  }

  copy(element) {
    const style = getComputedStyle(element);
    const rect = element.getBoundingClientRect();
    if (style.display === "none" || style.visibility === "hidden" || /^(BUTTON|INPUT|SELECT)$/.test(element.tagName)) return "";
    const box = this.box(rect);
    if (element.picture) {
      const pen = new SvgPen(`10.5px ${style.fontFamily}`);
      pen.translate(box.x, box.y);
      element.picture.draw(pen);
      return pen.out.join("");
    }
    if (element.tagName === "svg") return copied(element, box.x, box.y);
    let inside = this.ground(style, box) + this.borders(style, box);
    if (element.classList.contains("tc-twisty")) inside += this.twisty(element, box);
    let content = "";
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) content += child.data.trim() && this.text(child, style);
      else if (child.nodeType === Node.ELEMENT_NODE) content += this.copy(child);
    }
    if (content && style.overflow !== "visible") {
      const id = `${this.ids}-${this.clips++}`;
      content = node("clipPath", { id }, node("rect", box)) + node("g", { "clip-path": `url(#${id})` }, content);
    }
    inside += content;
    return style.opacity === "1" ? inside : node("g", { opacity: style.opacity }, inside);
  }
}

const CAPTION = 26;

/**
 * A part of the page as an SVG document, under a caption; its tools are left out.
 * @param {HTMLElement} element
 */
export function svgOf(element, caption) {
  element.classList.add("tc-saved");
  try {
    const style = getComputedStyle(element);
    const origin = element.getBoundingClientRect();
    const copyist = new Copyist(origin);
    const [width, height] = [Math.ceil(origin.width), Math.ceil(origin.height)];
    const pen = new SvgPen(`600 12px ${style.fontFamily}`);
    pen.fillStyle = style.color;
    pen.fillText(caption, 12, 17 - CAPTION, width - 24);
    const ground = node("rect", {
      x: 0,
      y: -CAPTION,
      width,
      height: height + CAPTION,
      fill: isSeen(style.backgroundColor) ? style.backgroundColor : "#fff",
    });
    return node(
      "svg",
      { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 ${-CAPTION} ${width} ${height + CAPTION}`, width, height: height + CAPTION },
      node("title", {}, escaped(caption)) + ground + pen.out.join("") + copyist.copy(element),
    );
  } finally {
    element.classList.remove("tc-saved");
  }
}

/** An SVG document as a PNG file, twice as fine. */
export async function pngOf(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  const scale = Math.min(2, Math.sqrt(6e7 / (image.width * image.height)));
  canvas.width = Math.round(image.width * scale);
  canvas.height = Math.round(image.height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((go, stop) =>
    canvas.toBlob((blob) => (blob ? go(blob) : stop(new Error("the browser makes no picture of it"))), "image/png"),
  );
}
