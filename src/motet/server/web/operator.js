/** The view of the operator, with the operator's token: clients, releases, the ledger, load and refusals. */

import { json, request } from "./connection.js";
import { byId, confirmed, element, fill } from "./dom.js";
import { ended, onChange, state } from "./state.js";
import { clock, count, number, sentence } from "./words.js";

/** @typedef {{id: string, name: string, examples: number, revoked: boolean, left_out: string | null}} ListedClient */

const EVERY = 5000; // milliseconds between looks
const SHOWN = 200; // clients of the list

/** In memory only. @type {string | null} */
let token = null;
/** @type {ListedClient[]} */
let clients = [];
/** @type {{time: number, accepted: number, requests: number} | null} */
let before = null;
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

export function start() {
  byId("operator-sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (byId("operator-token"));
    void enter(field.value.trim());
    field.value = "";
  });
  byId("operator-sign-out").addEventListener("click", leave);
  byId("operator-enroll").addEventListener("submit", (event) => {
    event.preventDefault();
    void attempt(enroll);
  });
  byId("operator-filter").addEventListener("input", listClients);
  byId("operator-release").addEventListener("click", () => void attempt(release));
  onChange("study", showEnd);
}

export function appear() {
  if (token !== null) void attempt(look, "operator-unread");
}

/** @param {string} given */
async function enter(given) {
  token = given;
  await attempt(async () => {
    await loadClients();
    byId("operator-sign-in").hidden = true;
    byId("operator-parts").hidden = false;
    await look();
    timer = setInterval(() => byId("operator").clientWidth && void attempt(look, "operator-unread"), EVERY);
  });
  if (byId("operator-parts").hidden) token = null;
}

function leave() {
  token = null;
  before = null;
  clients = [];
  clearInterval(timer);
  byId("operator-sign-in").hidden = false;
  byId("operator-parts").hidden = true;
  for (const id of ["operator-clients", "operator-enrolled", "operator-releases", "operator-refusals"]) fill(byId(id));
}

/** @param {string} path @param {any} [options] */
function call(path, options = {}) {
  return json(path, { token, ...options });
}

/**
 * Do something, and show why it failed: what the operator asked for in `operator-error`, until the operator asks for
 * something else; a look that the page takes by itself in `operator-unread`.
 * @param {() => Promise<void>} what @param {string} place
 */
async function attempt(what, place = "operator-error") {
  fill(byId(place));
  try {
    await what();
  } catch (error) {
    const { message, status } = /** @type {import("./connection.js").Refusal} */ (error);
    if (status === 401) leave();
    fill(byId(place), status === 401 ? "This token is not valid." : message);
  }
}

/** What the operator must know before enrolling anybody. */
function showEnd() {
  const reason = ended();
  byId("operator-ended").hidden = reason === null;
  fill(byId("operator-ended"), ...(reason === null ? [] : [element("strong", {}, "No later release has clients that you enroll now, or what anybody sends."), ` ${sentence(reason)}`]));
}

// --- clients ---

async function loadClients() {
  const all = [];
  for (let after = ""; ; ) {
    const page = await call(`/v1/clients?after=${encodeURIComponent(after)}`);
    all.push(...page.clients);
    if (page.next === null) break;
    after = page.next;
  }
  clients = all;
  listClients();
}

function listClients() {
  const query = /** @type {HTMLInputElement} */ (byId("operator-filter")).value.trim().toLowerCase();
  const fitting = clients.filter((client) => client.name.toLowerCase().includes(query));
  fill(byId("operator-clients"), ...fitting.slice(0, SHOWN).map(clientRow));
  const total = clients.reduce((sum, client) => sum + client.examples, 0);
  fill(byId("operator-count"), `${count(clients.length, "client")} with ${count(total, "example")}${fitting.length > SHOWN ? `; the first ${SHOWN} are shown` : ""}`);
}

/** @param {ListedClient} client */
function clientRow(client) {
  const remark = client.revoked ? "revoked" : client.left_out !== null ? `left out: ${client.left_out}` : "";
  const button = (/** @type {string} */ text, /** @type {() => Promise<void>} */ what) =>
    element("button", { type: "button", class: "quiet", "aria-label": `${text} ${client.name}`, click: () => void attempt(what) }, text);
  return element("tr", {},
    element("th", { scope: "row" }, client.name), element("td", { class: "number" }, client.examples.toLocaleString("en")), element("td", {}, remark),
    element("td", {}, client.revoked ? null : button("Revoke", () => revoke(client)), button("New token", () => rotate(client))));
}

async function enroll() {
  const field = /** @type {HTMLTextAreaElement} */ (byId("operator-names"));
  const names = field.value.split("\n").map((name) => name.trim()).filter(Boolean);
  if (names.length === 0) throw new Error("expected a name in each line, got none");
  const made = await call("/v1/clients", { method: "POST", body: { names } });
  field.value = "";
  showTokens(made.clients);
  await loadClients();
}

/** @param {ListedClient} client */
async function rotate(client) {
  const text = "The old token opens nothing any more. A client that was revoked is let in again.";
  if (!(await confirmed(`A new token for ${client.name}?`, text, "New token"))) return;
  const made = await call(`/v1/clients/${encodeURIComponent(client.id)}/token`, { method: "POST" });
  showTokens([{ name: client.name, token: made.token }]);
  await loadClients();
}

/** @param {ListedClient} client */
async function revoke(client) {
  if (!(await confirmed(`Revoke ${client.name}?`, "Its token opens nothing any more; its examples stay.", "Revoke"))) return;
  await call(`/v1/clients/${encodeURIComponent(client.id)}`, { method: "DELETE" });
  await loadClients();
}

/** Tokens are shown once, here; a link has its token behind #, which browsers do not send. @param {{name: string, token: string}[]} made */
function showTokens(made) {
  const rows = made.map(({ name, token: one }) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, element("code", {}, one)),
      element("td", {}, copy("Copy token", `Copy the token of ${name}`, one), copy("Copy link", `Copy the link of ${name}`, `${location.origin}/#token=${one}`))));
  fill(byId("operator-enrolled"),
    element("p", { class: "warning" }, "Shown once: copy each token, or the link that opens “My data” with it, and give it to its client alone."),
    element("div", { class: "scroll" }, element("table", { class: "clients" }, element("tbody", {}, ...rows))));
}

/** @param {string} text @param {string} label @param {string} value */
function copy(text, label, value) {
  const click = async (/** @type {any} */ event) => {
    const done = await navigator.clipboard?.writeText(value).then(() => true, () => false);
    fill(event.target, done ? "Copied" : "Select it, and copy by hand");
  };
  return element("button", { type: "button", class: "quiet", "aria-label": label, click }, text);
}

// --- releases, load, refusals ---

async function look() {
  const [history, metrics, { refusals }] = await Promise.all([
    call("/v1/releases"), request("/metrics", { token }).then((answer) => answer.text()), call("/v1/refusals"),
  ]);
  showNext(history.next);
  showLoad(metrics);
  fill(byId("operator-releases"), ...history.releases.slice(0, 20).map(releaseRow));
  byId("operator-release").hidden = state.study?.policy !== "exact";
  const rows = refusals.slice(0, 20).map((/** @type {any} */ one) =>
    element("tr", {}, element("td", {}, clock(one.time)), element("td", {}, one.method), element("td", {}, one.route), element("td", { class: "number" }, one.status)));
  fill(byId("operator-refusals"), ...rows);
  byId("operator-no-refusals").hidden = rows.length > 0;
}

/** @param {{clients: number, examples: number, changes: number}} next */
function showNext(next) {
  const due = state.study?.next_release ?? null;
  const when = due === null ? "No release will come" : `Due at ${clock(due)}`;
  const { budget } = state.study ?? { budget: null };
  const spent = budget === null ? "" : ` Spent so far: ε = ${budget.spent.toFixed(2)} of ${number(budget.epsilon)}`;
  const ledger = budget === null ? "" : budget.per === "client" ? `${spent}, by a client that was in ${count(Math.min(budget.made, budget.releases), "release")}; it may be in ${budget.releases}.` : `${spent}, in ${budget.made} of ${count(budget.releases, "release")}.`;
  fill(byId("operator-next"), `${when}: ${count(next.examples, "example")} of ${count(next.clients, "client")}, with ${count(next.changes, "change")} since the last.${ledger}`);
}

/** @param {{version: number, made: number, scale: number | null, spent: number | null}} one */
function releaseRow(one) {
  return element("tr", {}, element("th", { scope: "row" }, one.version), element("td", {}, clock(one.made)),
    element("td", {}, one.scale === null ? "none" : `${number(one.scale)} × one client`), element("td", {}, one.spent === null ? "" : one.spent.toFixed(2)));
}

/** Rates since the last look, from the counters. @param {string} metrics */
function showLoad(metrics) {
  const total = (/** @type {RegExp} */ pattern) => Array.from(metrics.matchAll(pattern), (match) => Number(match[1])).reduce((sum, value) => sum + value, 0);
  const now = {
    time: Date.now() / 1000,
    accepted: total(/^motet_examples_total\{outcome="accepted"\} (\S+)$/gm),
    requests: total(/^motet_requests_total\{.*\} (\S+)$/gm),
  };
  const seconds = total(/^motet_seconds_sum\{.*\} (\S+)$/gm) / Math.max(1, total(/^motet_seconds_count\{.*\} (\S+)$/gm));
  const rate = (/** @type {"accepted" | "requests"} */ what) => (before === null ? "" : `, ${number((now[what] - before[what]) / (now.time - before.time))} a second`);
  const facts = [
    ["Examples taken since the start", `${now.accepted.toLocaleString("en")}${rate("accepted")}`],
    ["Requests since the start", `${now.requests.toLocaleString("en")}${rate("requests")}, ${number(1000 * seconds)} ms on average`],
    ["Waiting for the database", `${total(/^motet_waiting (\S+)$/gm)}`],
  ];
  fill(byId("operator-load"), ...facts.map(([title, text]) => element("div", { class: "fact" }, element("dt", {}, title), element("dd", {}, text))));
  before = now;
}

async function release() {
  await call("/v1/releases", { method: "POST" });
  await look();
}
