/**
 * The view "My data", for a client with its token: its own examples, estimate and rights.
 *
 * The token is in memory only: in `state`, from the form or from behind # of the address, which is cleared at once.
 */

import { predict } from "./calculator.js";
import { json, retry } from "./connection.js";
import { CurvePanel } from "./curves.js";
import { byId, confirmed, element, fill, save } from "./dom.js";
import { describe, fields, fromBody, fromForm, inputText, numbers, toBody, toTable } from "./entry.js";
import { ownList, scale } from "./ranking.js";
import { onChange, state } from "./state.js";
import { count, number, sentence } from "./words.js";

/** @typedef {import("./entry.js").Example & {id: string, noise: number}} StoredExample */

/** @type {StoredExample[]} */
let stored = [];
/** @type {Promise<any> | null} */
let asked = null;
const panel = new CurvePanel("mine");

export function start() {
  byId("mine-sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (byId("mine-token"));
    void enter(field.value.trim());
    field.value = "";
  });
  byId("mine-sign-out").addEventListener("click", leave);
  byId("mine-add").addEventListener("submit", (event) => {
    event.preventDefault();
    void attempt(add);
  });
  byId("mine-save").addEventListener("click", () => save("my-data.csv", toTable(stored)));
  byId("mine-forget").addEventListener("click", () => void attempt(forget));
  onChange("release", () => void attempt(async () => {
    if (isOpen()) await about();
    await draw();
  }, "mine-unread"));
}

export function appear() {
  void attempt(draw, "mine-unread");
}

function isOpen() {
  return state.token !== null && !byId("mine-parts").hidden;
}

/** @param {string} token */
export async function enter(token) {
  state.token = token;
  await attempt(async () => {
    await about();
    if (state.trouble?.status === 401) retry(); // releases are for clients only
    await describe();
    byId("mine-sign-in").hidden = true;
    byId("mine-parts").hidden = false;
    fill(byId("mine-add-fields"), ...fields("mine-new"));
    await reload();
  });
  if (byId("mine-parts").hidden) state.token = null;
}

/** Who this is, whether the current release has the client's examples, and whether a later one will. */
async function about() {
  const me = await call("/v1/me");
  fill(byId("mine-name"), me.name);
  fill(byId("mine-left-out"), me.left_out === null ? "" : `The current release does not have your examples: ${me.left_out}`);
  const { ended } = me;
  byId("mine-ended").hidden = ended === null;
  fill(byId("mine-ended"), ...(ended === null ? [] : [element("strong", {}, "No later release has what you send or change now."), ` ${sentence(ended)}`]));
}

function leave() {
  state.token = null;
  stored = [];
  byId("mine-sign-in").hidden = false;
  byId("mine-parts").hidden = true;
  fill(byId("mine-list"));
  fill(byId("mine-result"));
}

/** @param {string} path @param {any} [options] */
function call(path, options = {}) {
  return json(path, { token: state.token, ...options });
}

/**
 * Do something, and show why it failed: what the visitor asked for in `mine-error`, until the visitor asks for something
 * else; what the page draws by itself in `mine-unread`.
 * @param {() => Promise<void>} what @param {string} place
 */
async function attempt(what, place = "mine-error") {
  fill(byId(place));
  if (place === "mine-error") fill(byId("mine-done"));
  try {
    await what();
  } catch (error) {
    const { message, status } = /** @type {import("./connection.js").Refusal} */ (error);
    if (status === 401) leave();
    fill(byId(place), status === 401 ? "This token is not valid: it is mistyped, was revoked, or its client is gone." : message);
  }
}

async function reload() {
  const all = [];
  for (let after = ""; ; ) {
    const page = await call(`/v1/me/examples?limit=1000&after=${encodeURIComponent(after)}`);
    all.push(...page.examples);
    if (page.next === null) break;
    after = page.next;
  }
  stored = all.map((one) => ({ ...fromBody(one), id: one.id, noise: one.noise }));
  list();
  await attempt(draw, "mine-unread");
}

// --- changes ---

async function add() {
  const form = /** @type {HTMLFormElement} */ (byId("mine-add"));
  const id = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const example = fromForm(form);
  if (example === null) return;
  await call("/v1/examples", { method: "POST", body: { examples: [{ id, ...toBody(example) }] } });
  form.reset();
  await reload();
}

/** @param {StoredExample} one */
async function remove(one) {
  if (!(await confirmed(`Remove ${inputText(one)}?`, "It is deleted, and is in no release that is computed later.", "Remove"))) return;
  await call(`/v1/me/examples/${encodeURIComponent(one.id)}`, { method: "DELETE" });
  await reload();
}

/** @param {StoredExample} one @param {HTMLFormElement} form */
async function replace(one, form) {
  const example = fromForm(form);
  if (example === null) return;
  await call(`/v1/me/examples/${encodeURIComponent(one.id)}`, { method: "PUT", body: { ...toBody(example), noise: one.noise } });
  await reload();
}

async function forget() {
  const text = `You and your ${count(stored.length, "example")} are deleted, your token opens nothing any more, and no later release has anything of you. ${state.study?.policy === "exact" ? "The server gives out a release that has it no longer than until the next one is computed, but copies elsewhere stay." : "Releases that are out stay."} This cannot be undone.`;
  if (!(await confirmed("Forget me?", text, "Forget me"))) return;
  const { removed, erased, note } = await call("/v1/me", { method: "DELETE" });
  leave();
  fill(byId("mine-done"), `${count(removed, "example")} deleted. ${erased ? "Nothing of them is in the server's files." : note}`);
}

// --- what is shown ---

function list() {
  fill(byId("mine-count"), count(stored.length, "example"));
  const rows = stored.map((one) => element("li", {}, ...shown(one)));
  fill(byId("mine-list"), ...rows);
  byId("mine-none").hidden = stored.length > 0;
}

/** @param {StoredExample} one */
function shown(one) {
  const text = inputText(one);
  return [
    element("span", { class: "name" }, text),
    element("span", { class: "value" }, number(one.y)),
    element("span", {},
      element("button", { type: "button", class: "quiet", "aria-label": `Change ${text}`, click: (/** @type {Event} */ event) => edit(one, event) }, "Change"),
      element("button", { type: "button", class: "quiet", "aria-label": `Remove ${text}`, click: () => void attempt(() => remove(one)) }, "Remove")),
  ];
}

/** Fields in place of an example. @param {StoredExample} one @param {Event} event */
function edit(one, event) {
  const row = /** @type {HTMLElement} */ (/** @type {HTMLElement} */ (event.target).closest("li"));
  const form = element("form", { class: "fields" }, ...fields(`mine-${one.id}`, one),
    element("button", { type: "submit" }, "Save"), element("button", { type: "button", click: list }, "Cancel"));
  form.addEventListener("submit", (submitted) => {
    submitted.preventDefault();
    void attempt(() => replace(one, form));
  });
  fill(row, form);
  form.querySelector("input")?.focus();
}

/** One request at a time: the server refuses a client's second one, and releases may come faster than it answers. */
async function ownCoefficients() {
  while (asked !== null) await asked.catch(() => null);
  asked = call("/v1/me/coefficients");
  try {
    return await asked;
  } finally {
    asked = null;
  }
}

async function draw() {
  const { release } = state;
  const place = byId("mine-result");
  if (!isOpen() || !byId("mine").clientWidth) return;
  if (release === null || stored.length === 0) {
    fill(place, element("p", { class: "note" }, release === null ? "Your estimate appears with the first release." : "Your estimate appears with your first example."));
    return;
  }
  const coefficients = await ownCoefficients();
  if (coefficients.release !== release.digest) return; // the page loads the newer one, and draws then
  if (release.names === null) {
    if (!place.contains(panel.root)) fill(place, element("h3", {}, "Your curve"), panel.root);
    panel.coefficients = coefficients;
    panel.dots = stored.map((one) => ({ numbers: numbers(one.cells), y: one.y }));
    await panel.draw();
    return;
  }
  const { names } = release;
  const { average, own } = await predict({ at: "catalogue", coefficients });
  const rated = stored.map((one) => ({ item: names.indexOf(one.cells.name), y: one.y }));
  if (own !== null)
    fill(place, element("h3", {}, "Your top 20"), ownList({ names, average, own, influence: null, rated, range: scale(average, own) }));
}
