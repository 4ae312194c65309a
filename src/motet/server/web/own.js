/**
 * The view "Try it, privately": a passive client in the browser.
 *
 * Own examples stay in this page. They are kept on the device only if the visitor chooses it, and are then in the
 * browser's local storage; they can be saved as a file, and cleared.
 */

import { predict } from "./calculator.js";
import { onRequest, requests } from "./connection.js";
import { CurvePanel } from "./curves.js";
import { byId, element, fill, save } from "./dom.js";
import { fields, fromForm, fromTable, inputNames, inputText, misfit, numbers, toTable } from "./entry.js";
import { outputScale } from "./output.js";
import { averageList, newcomers, order, ownList, scale } from "./ranking.js";
import { absence, onChange, state, target } from "./state.js";
import { decoded } from "./table.js";
import { clock, count, number } from "./words.js";

const SUGGESTIONS = 8;
const STORAGE = "motet-own-examples";

/** @type {import("./entry.js").Example[]} */
let examples = [];
/** Where the average's values are, with their uncertainty. @type {[number, number]} */
let usual = [-10, 10];
let turn = 0;
const panel = new CurvePanel("own");

export function start() {
  byId("own-keep").addEventListener("change", store);
  byId("own-export").addEventListener("click", () => save("my-examples.csv", toTable(examples)));
  byId("own-clear").addEventListener("click", () => change([]));
  byId("own-file").addEventListener("change", (event) => void open(/** @type {HTMLInputElement} */ (event.target)));
  byId("own-paste").addEventListener("paste", (event) => paste(/** @type {ClipboardEvent} */ (event)));
  const zone = byId("try"); // all of it: beside a smaller one the browser would leave the page for the file
  zone.addEventListener("dragover", (event) => event.preventDefault());
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    void takeFile(event.dataTransfer?.files[0]);
  });
  byId("own-search").addEventListener("input", suggest);
  restore();
  onChange("release", () => {
    form();
    list();
    void draw();
  });
  onChange("study", showAbsence);
  onChange("trouble", showAbsence);
  onRequest(showRequests);
  showRequests();
}

export function appear() {
  void draw();
}

// --- changes ---

/** @param {typeof examples} next */
function change(next) {
  examples = next;
  list();
  suggest();
  store();
  void draw();
}

/** @param {string} name @param {number} y */
function rate(name, y) {
  const place = examples.findIndex((one) => one.cells.name === name);
  if (place < 0) change([...examples, { cells: { name }, y }]);
  else {
    examples[place].y = y;
    store();
    void draw();
  }
}

/** @param {string} text of a CSV */
function take(text) {
  fill(byId("own-read"));
  try {
    const { examples: read, unused } = fromTable(text);
    const all = [...examples, ...read];
    change(state.release?.names ? [...new Map(all.map((one) => [one.cells.name, one])).values()] : all);
    complain("");
    fill(byId("own-read"), `${count(read.length, "example")} read.${unused.length ? ` Not used: ${unused.join(", ")}.` : ""}`);
  } catch (error) {
    complain(`Not read: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {File | undefined} file */
async function takeFile(file) {
  if (file === undefined) return;
  try {
    take(await decoded(file));
  } catch (error) {
    complain(`Not read: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {string} text */
function complain(text) {
  fill(byId("own-error"), text);
}

/** @param {HTMLInputElement} field */
async function open(field) {
  await takeFile(field.files?.[0]);
  field.value = "";
}

/** @param {ClipboardEvent} event */
function paste(event) {
  event.preventDefault();
  take(event.clipboardData?.getData("text") ?? "");
}

// --- what the device keeps ---

function store() {
  const keeps = /** @type {HTMLInputElement} */ (byId("own-keep")).checked;
  try {
    if (keeps) localStorage.setItem(STORAGE, JSON.stringify(examples));
    else localStorage.removeItem(STORAGE);
  } catch {
    complain("This browser does not let the page keep anything.");
  }
}

function restore() {
  try {
    const kept = localStorage.getItem(STORAGE);
    if (kept === null) return;
    examples = JSON.parse(kept);
    /** @type {HTMLInputElement} */ (byId("own-keep")).checked = true;
  } catch {
    examples = [];
  }
}

// --- what is shown ---

/** The fields for one example by hand; for a catalogue, the search. */
function form() {
  const { release } = state;
  if (release === null) return;
  byId("own-catalogue").hidden = release.names === null;
  byId("own-numeric").hidden = release.names !== null;
  fill(byId("own-columns"), [...inputNames(), target()].join(", "));
  if (release.names !== null) {
    suggest();
    return;
  }
  const place = byId("own-form");
  if (place.childElementCount) return;
  fill(place, ...fields("own-new"), element("button", { type: "submit" }, "Add"));
  place.addEventListener("submit", (event) => {
    event.preventDefault();
    add(/** @type {HTMLFormElement} */ (place));
  });
}

/** @param {HTMLFormElement} place */
function add(place) {
  try {
    complain("");
    const example = fromForm(place);
    if (example === null) return;
    change([...examples, example]);
    place.reset();
    place.querySelector("input")?.focus();
  } catch (error) {
    complain(/** @type {Error} */ (error).message);
  }
}

function suggest() {
  const names = state.release?.names;
  if (!names) return;
  const query = /** @type {HTMLInputElement} */ (byId("own-search")).value.trim().toLowerCase();
  const rated = new Set(examples.map((one) => one.cells.name));
  const fitting = names.filter((name) => !rated.has(name) && name.toLowerCase().includes(query));
  fitting.sort((a, b) => Number(b.toLowerCase().startsWith(query)) - Number(a.toLowerCase().startsWith(query)));
  const buttons = fitting.slice(0, SUGGESTIONS).map((name) =>
    element("li", {}, element("button", { type: "button", class: "suggestion", click: () => void choose(name) }, name)));
  fill(byId("own-suggestions"), ...buttons);
  const more = fitting.length - buttons.length;
  fill(byId("own-fitting"), fitting.length === 0 ? "No item has these letters." : more > 0 ? `and ${more} more: type some letters` : "");
}

/** A new item has the average's own rating, so that nothing moves until the visitor moves it. @param {string} name */
async function choose(name) {
  const { average } = await predict({ at: "catalogue" });
  const { low, high } = ratingScale();
  const y = average.mean[/** @type {string[]} */ (state.release?.names).indexOf(name)];
  rate(name, Math.min(Math.max(y, low), high));
  /** @type {HTMLInputElement} */ (byId("own-search")).value = "";
  suggest();
  /** @type {HTMLElement | null} */ (byId("own-list").querySelector("li:last-child input"))?.focus();
}

/** The own examples, each to change or remove. */
function list() {
  const place = byId("own-list");
  const rows = examples.map((example, k) => {
    const what = inputText(example);
    const remove = element("button", { type: "button", class: "remove", "aria-label": `Remove ${what}`, click: () => change(examples.filter((one) => one !== example)) }, "×");
    const reason = misfit(example);
    const value = state.release?.names && reason === "" ? slider(example, k) : element("span", { class: "value" }, number(example.y));
    return element("li", {}, element("span", { class: "name" }, what), value, remove, reason === "" ? null : element("small", { class: "error" }, `Not used: ${reason}`));
  });
  fill(place, ...rows);
  byId("own-actions").hidden = examples.length === 0;
  byId("own-none").hidden = examples.length > 0;
}

function ratingScale() {
  return outputScale(usual, examples.map((one) => one.y));
}

/** @param {typeof examples[number]} example @param {number} k */
function slider(example, k) {
  const { low, high, step } = ratingScale();
  const text = element("output", { class: "value", for: `own-rating-${k}` }, number(example.y));
  const input = (/** @type {any} */ event) => {
    fill(text, number(Number(event.target.value)));
    rate(example.cells.name, Number(event.target.value));
  };
  const range = element("input", { type: "range", id: `own-rating-${k}`, min: low, max: high, step, "aria-label": `Your rating of ${example.cells.name}`, input });
  range.value = String(example.y);
  return element("span", { class: "rating" }, range, text);
}

function showAbsence() {
  byId("own-empty").hidden = state.release !== null;
  byId("own-parts").hidden = state.release === null;
  fill(byId("own-empty"), state.release === null ? absence() : "");
}

async function draw() {
  const { release } = state;
  const place = byId("own-result");
  showAbsence();
  if (release === null || !byId("try").clientWidth) return;
  const usable = examples.filter((one) => misfit(one) === "");
  try {
    if (release.names === null) {
      if (!place.contains(panel.root)) fill(place, panel.root);
      panel.examples = usable.map(({ cells, y, noise }) => ({ numbers: numbers(cells), y, noise }));
      await panel.draw();
    } else await drawLists(release.names, usable, place);
    complain("");
  } catch (error) {
    complain(`No estimate: ${/** @type {Error} */ (error).message}`);
  }
}

/** @param {string[]} names @param {typeof examples} usable @param {HTMLElement} place */
async function drawLists(names, usable, place) {
  const now = ++turn;
  const rated = usable.map(({ cells, y, noise = 1 }) => ({ item: names.indexOf(cells.name), y, noise }));
  const given = rated.length ? { items: rated.map(({ item }) => item), y: rated.map(({ y }) => y), noise: rated.map(({ noise }) => noise) } : null;
  const { average, own, influence } = await predict({ at: "catalogue", examples: given });
  if (now !== turn) return;
  usual = scale(average);
  if (own === null) {
    fill(place, element("section", {}, element("h3", {}, "The average's top 20"), averageList(names, average, scale(average))));
    return;
  }
  const range = scale(average, own);
  const places = new Map(order(own.mean).map((item, k) => [item, k + 1]));
  const remark = (/** @type {number} */ item) => `yours: ${places.get(item)}.`;
  fill(
    place,
    element("section", {}, element("h3", {}, "Your top 20"), element("p", { class: "note" }, `${newcomers(average.mean, own.mean)}.`), ownList({ names, average, own, influence, rated, range })),
    element("section", {}, element("h3", {}, "The average's top 20"), element("p", { class: "note" }, "The same for everybody."), averageList(names, average, range, remark)),
  );
}

function showRequests() {
  const sent = requests.reduce((total, one) => total + one.sent, 0);
  const others = requests.filter((one) => one.method !== "GET").length;
  fill(byId("own-requests"), `${count(requests.length, "request")} besides those for the files of this page, ${others === 0 ? "all of them GET" : `${others} of them not GET`}; ${count(sent, "byte")} sent with them.`);
  const rows = requests.slice(-12).map((one) => element("li", {}, `${clock(one.time)} ${one.method} ${one.path}${one.sent ? `, ${count(one.sent, "byte")} sent` : ""}`));
  fill(byId("own-request-list"), ...rows);
}
