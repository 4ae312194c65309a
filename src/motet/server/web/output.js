/** The study's output: how it is called, and on which scale people give it. */

import { state, target } from "./state.js";

/** For a heading: "pace (min/km)". */
export function outputTitle() {
  const { name = target(), unit = null } = state.study?.output ?? {};
  return unit === null ? name : `${name} (${unit})`;
}

/** What an output can be: the study's limits, which the server enforces; without any, not beyond a scale that ends at 0. @returns {[number, number]} */
export function outputLimits() {
  const { limits, output } = state.study ?? {};
  const [low, high] = output?.scale ?? [-1, 1];
  return limits?.y ?? [low === 0 ? 0 : -Infinity, high === 0 ? 0 : Infinity];
}

/** A predicted output as it is drawn and said: the model's may lie where no output can. @param {number} value */
export function possible(value) {
  const [low, high] = outputLimits();
  return Math.min(Math.max(value, low), high);
}

/**
 * Where a control for an output goes: on the study's scale, and as far beyond it as given outputs are; without a scale,
 * where the average's values are, `usual`.
 * @param {[number, number]} usual @param {number[]} given
 */
export function outputScale(usual, given) {
  const [lowest, highest, step] = state.study?.output?.scale ?? around(usual);
  const below = Math.max(0, Math.ceil((lowest - Math.min(lowest, ...given)) / step));
  return { low: lowest - below * step, high: Math.max(highest, ...given), step };
}

/** Round numbers around a range, within the limits. @param {[number, number]} usual @returns {[number, number, number]} */
function around([low, high]) {
  const step = 10 ** (Math.floor(Math.log10(high - low)) - 2);
  const [least, most] = outputLimits();
  return [Math.max(least, step * Math.floor(low / step)), Math.min(most, step * Math.ceil(high / step)), step];
}
