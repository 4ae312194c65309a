/**
 * Pictures drawn as SVG: curves with bands, an interval beside a name, a gauge.
 *
 * Our own, because chart libraries need either a build step or eval, which the page's policy forbids, and weigh more
 * than all the rest. Colours and fonts are the style sheet's, by class.
 */

import { element, picture } from "./dom.js";
import { number } from "./words.js";

/** @typedef {{label: string, kind: "average" | "own", style: number | null, x: number[], mean: Float64Array, std: Float64Array | null}} Series */
/** @typedef {(value: number) => number} Cut a value as it is drawn: it may lie where none can be */
/** @typedef {{value: number, text: string}} Tick */
/** @typedef {{low: number, high: number, pixel: (value: number) => number}} Axis */

const Z = 1.96; // of a band of 95 %

/** @param {number} low @param {number} high @param {number} from @param {number} to @returns {Axis} */
function axis(low, high, from, to) {
  return { low, high, pixel: (value) => from + ((to - from) * (value - low)) / (high - low) };
}

/** Round numbers between two ends, as text with as many digits as they need. @param {number} low @param {number} high @param {number} about @returns {Tick[]} */
export function ticks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((unit) => unit * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const values = Array.from({ length: Math.max(0, Math.floor(high / step + 1e-9) - first + 1) }, (_, k) => (first + k) * step);
  return values.map((value) => ({ value, text: digits > 8 || Math.abs(value) >= 1e7 ? number(value) : value.toFixed(digits).replace("-", "−") }));
}

/**
 * Curves with their bands over one input, and own examples as dots.
 * @param {{
 *   series: Series[], dots: {x: number, y: number, faint?: boolean}[], xTitle: string, yTitle: string,
 *   xText: (value: number) => string, xTicks: (low: number, high: number, about: number) => Tick[], width: number,
 *   summary: string, cut: Cut,
 * }} chart
 */
export function curves({ series: given, dots, xTitle, yTitle, xText, xTicks, width, summary, cut }) {
  const series = given.map((one) => ({ ...one, mean: one.mean.map(cut), ...ends(one, cut) }));
  const height = Math.round(Math.max(240, Math.min(400, 0.55 * width)));
  const [left, right, top, bottom] = [52, 12, 12, 44];
  const xs = [...series.flatMap((one) => one.x), ...dots.map((dot) => dot.x)];
  const ys = [...series.flatMap(({ low, high }) => [...low, ...high]), ...dots.map((dot) => dot.y)];
  const [lowest, highest] = [Math.min(...ys), Math.max(...ys)];
  const room = 0.05 * (highest - lowest || 1);
  const X = axis(Math.min(...xs), Math.max(...xs), left, width - right);
  const Y = axis(lowest - room, highest + room, height - bottom, top);
  const svg = picture(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": summary, class: "chart" },
    ...xTicks(X.low, X.high, width / 110).map(({ value, text }) =>
      picture("g", {}, line(X.pixel(value), top, X.pixel(value), height - bottom, "grid"),
        label(X.pixel(value), height - bottom + 18, text, "middle"))),
    ...ticks(Y.low, Y.high, height / 55).map(({ value, text }) =>
      picture("g", {}, line(left, Y.pixel(value), width - right, Y.pixel(value), "grid"),
        label(left - 8, Y.pixel(value) + 4, text, "end"))),
    label((left + width - right) / 2, height - 6, xTitle, "middle", "title"),
    picture("text", { transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "title" }, yTitle),
    ...series.map((one) => band(one, X, Y)),
    ...series.map((one) => picture("path", { d: path(one.x, one.mean, X, Y), class: `curve ${look(one)}` })),
    ...dots.map((dot) => picture("circle", { cx: X.pixel(dot.x), cy: Y.pixel(dot.y), r: 4.5, class: dot.faint ? "dot faint" : "dot" })),
  );
  svg.append(reading(svg, series, X, Y, top, height - bottom, xText));
  return element("div", { class: "drawing" }, legend(series, dots), svg);
}

/** The classes of a curve: one of several that are compared has a colour of its own. @param {Series} one */
function look({ kind, style }) {
  return style === null ? kind : `${kind} compared style-${style}`;
}

/** The ends of a band of 95 %. @param {Series} one @param {Cut} cut */
function ends({ mean, std }, cut) {
  const half = (/** @type {number} */ i) => Z * (std?.[i] ?? 0);
  return { low: mean.map((value, i) => cut(value - half(i))), high: mean.map((value, i) => cut(value + half(i))) };
}

/** @param {Series & {low: Float64Array, high: Float64Array}} one @param {Axis} X @param {Axis} Y */
function band(one, X, Y) {
  if (one.std === null) return null;
  const back = path([...one.x].reverse(), Float64Array.from(one.low).reverse(), X, Y).replace("M", "L");
  return picture("path", { d: `${path(one.x, one.high, X, Y)}${back}Z`, class: `band ${look(one)}` });
}

/** @param {ArrayLike<number>} x @param {Float64Array} y @param {Axis} X @param {Axis} Y */
function path(x, y, X, Y) {
  return Array.from(y, (value, i) => `${i ? "L" : "M"}${X.pixel(x[i]).toFixed(1)} ${Y.pixel(value).toFixed(1)}`).join("");
}

/** A line under the pointer, with the values there. @param {SVGSVGElement} svg @param {Series[]} series @param {Axis} X @param {Axis} Y @param {number} top @param {number} bottom @param {(value: number) => string} xText */
function reading(svg, series, X, Y, top, bottom, xText) {
  const group = picture("g", { class: "reading", visibility: "hidden" });
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const { x } = series[0];
    const i = x.reduce((best, value, k) => (Math.abs(X.pixel(value) - at) < Math.abs(X.pixel(x[best]) - at) ? k : best), 0);
    const place = X.pixel(x[i]);
    const side = place > svg.viewBox.baseVal.width / 2 ? "end" : "start";
    const texts = series.map((one) => `${one.label}: ${number(one.mean[i])}${one.std === null ? "" : ` ± ${number(one.std[i])}`}`);
    group.replaceChildren(
      line(place, top, place, bottom, "cursor"),
      ...series.map((one) => picture("circle", { cx: place, cy: Y.pixel(one.mean[i]), r: 3.5, class: `mark ${look(one)}` })),
      ...[xText(x[i]), ...texts].map((text, k) => label(place + (side === "end" ? -8 : 8), top + 14 + 16 * k, text, side, "value")),
    );
    group.setAttribute("visibility", "visible");
  });
  svg.addEventListener("pointerleave", () => group.setAttribute("visibility", "hidden"));
  return group;
}

/** @param {Series[]} series @param {{faint?: boolean}[]} dots */
function legend(series, dots) {
  const entries = series.map((one) =>
    element("span", { class: "entry" }, swatch(`curve ${look(one)}`), one.label + (one.std === null ? "" : ", with 95 % band")),
  );
  const mark = picture("svg", { viewBox: "0 0 24 12", class: "swatch", "aria-hidden": "true" }, picture("circle", { cx: 12, cy: 6, r: 4.5, class: "dot" }));
  return element("p", { class: "legend" }, ...entries, dots.length ? element("span", { class: "entry" }, mark, dots.some((dot) => dot.faint) ? "your examples, faint at other values" : "your examples") : null);
}

/** @param {string} kind */
function swatch(kind) {
  return picture("svg", { viewBox: "0 0 24 12", class: "swatch", "aria-hidden": "true" }, picture("path", { d: "M0 6L24 6", class: kind }));
}

/** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {string} kind */
function line(x1, y1, x2, y2, kind) {
  return picture("line", { x1, y1, x2, y2, class: kind });
}

/** @param {number} x @param {number} y @param {string} text @param {string} anchor @param {string} [kind] */
function label(x, y, text, anchor, kind = "tick") {
  return picture("text", { x, y, "text-anchor": anchor, class: kind }, text);
}

/**
 * A value and its standard deviation, as a dot in an interval of 95 %.
 * @param {number} mean @param {number | null} std @param {[number, number]} range @param {"average" | "own"} kind @param {Cut} cut
 */
export function interval(mean, std, [low, high], kind, cut) {
  const X = axis(low, high, 4, 156);
  const clipped = (/** @type {number} */ value) => Math.min(Math.max(X.pixel(cut(value)), 1), 159);
  return picture(
    "svg",
    { viewBox: "0 0 160 16", class: "interval", "aria-hidden": "true" },
    line(1, 8, 159, 8, "rail"),
    std === null ? null : line(clipped(mean - Z * std), 8, clipped(mean + Z * std), 8, `whisker ${kind}`),
    picture("circle", { cx: clipped(mean), cy: 8, r: 4, class: `mark ${kind}` }),
  );
}

/** A bar of which a part is used up. @param {number} used from 0 to 1 @param {string} summary */
export function gauge(used, summary) {
  const part = Math.min(Math.max(used, 0), 1);
  return picture(
    "svg",
    { viewBox: "0 0 300 14", preserveAspectRatio: "none", class: "gauge", role: "img", "aria-label": summary },
    picture("rect", { x: 0, y: 0, width: 300, height: 14, class: "left" }),
    picture("rect", { x: 0, y: 0, width: 300 * part, height: 14, class: "used" }),
  );
}
