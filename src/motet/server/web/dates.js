/**
 * Dates in cells: days since a fixed one, from ISO 8601 or from the forms that people write; the same as
 * motet/tables/dates.py. Those with the year last are read only by a column that says which number is the day.
 */

/** @typedef {"" | "day first" | "month first"} DateOrder "": the year is, as in ISO 8601 */

const DAY = 86_400_000; // milliseconds
const TIME_OF_DAY = String.raw`(?:,?[ T]+(\d{1,2}):(\d\d)(?::(\d\d))?(?: ?([AaPp])\.?[Mm]\.?)?)?`;
const ISO_TIME = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)(Z|[+-]\d\d:?\d\d)?$/;
const ISO_BEGIN = /^\d{4}-\d\d-\d\d[ T]/;
const YEAR_FIRST = new RegExp(String.raw`^(\d{4})([./-])(\d{1,2})\2(\d{1,2})${TIME_OF_DAY}$`);
const YEAR_LAST = new RegExp(String.raw`^(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d\d)${TIME_OF_DAY}$`);
const FIRST_SHORT_YEAR = 1969; // 69 to 99 are of that century, 00 to 68 of the next

/** A date, or a time, in days; one without a zone is taken in UTC. Null if it is no date. @param {string} text @param {number} since @param {DateOrder} order */
export function daysSince(text, since, order) {
  const time = moment(text, order);
  return time === null ? null : (time - since) / DAY;
}

/** The milliseconds of a date since 1970, or null. @param {string} text @param {DateOrder} order @returns {number | null} */
function moment(text, order) {
  if (ISO_BEGIN.test(text)) {
    const [, date, time, zone = "Z"] = ISO_TIME.exec(text) ?? [];
    const parsed = date !== undefined && moment(date, "") !== null ? Date.parse(`${date}T${time}${zone}`) : NaN;
    return Number.isNaN(parsed) ? null : parsed;
  }
  let parts = YEAR_FIRST.exec(text);
  if (parts !== null) return at([parts[1], parts[3], parts[4]], parts.slice(5));
  parts = order === "" ? null : YEAR_LAST.exec(text);
  if (parts === null) return null;
  const [day, month] = order === "day first" ? [parts[1], parts[3]] : [parts[3], parts[1]];
  return at([fullYear(parts[4]), month, day], parts.slice(5));
}

/** @param {string} text */
function fullYear(text) {
  return text.length > 2 ? text : FIRST_SHORT_YEAR + ((Number(text) - FIRST_SHORT_YEAR + 2000) % 100);
}

/** Null for a day or a time that does not exist. @param {(string | number)[]} date @param {string[]} time */
function at(date, [hour = "0", minute = "0", second = "0", half = ""]) {
  const [year, month, day] = date.map(Number);
  if (half !== "" && !(Number(hour) >= 1 && Number(hour) <= 12)) return null;
  const hours = half === "" ? Number(hour) : (Number(hour) % 12) + (/p/i.test(half) ? 12 : 0);
  const there = new Date(0);
  there.setUTCFullYear(year, month - 1, day);
  if (year < 1 || there.getUTCMonth() !== month - 1 || there.getUTCDate() !== day) return null;
  if (hours > 23 || Number(minute) > 59 || Number(second) > 59) return null;
  return there.setUTCHours(hours, Number(minute), Number(second));
}
