/** Numbers and times as people read them. */

/** A number with about three digits. @param {number} value */
export function number(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(1).replace("-", "−").replace("e+", "e");
  return String(size >= 100 ? Math.round(value) : Number(value.toPrecision(3))).replace("-", "−");
}

/** A number with six digits, for a limit: it must not be rounded to what lies beyond it. @param {number} value */
export function limit(value) {
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

/** "1 rating", "2 ratings". @param {number} n @param {string} noun @param {string} [plural] */
export function count(n, noun, plural = `${noun}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? noun : plural}`;
}

/** How long it takes: "4 min 10 s". @param {number} seconds */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 2 * 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} days`;
}

/** A time of day, with the date unless it is today. @param {number} seconds since 1970 */
export function clock(seconds) {
  const moment = new Date(1000 * seconds);
  const today = moment.toDateString() === new Date().toDateString();
  const time = moment.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(today ? { second: "2-digit" } : {}) });
  return today ? time : `${moment.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })}, ${time}`;
}

/** A reason as the server gives it, as a sentence. @param {string} reason */
export function sentence(reason) {
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`;
}
