/**
 * What the page knows: the study's public facts, the release that the worker has loaded, and whether the server
 * answers. Views listen to it.
 */

import { load } from "./calculator.js";
import { Columns } from "./columns.js";
import { Refusal, bytes, json, news, request } from "./connection.js";

/** @typedef {import("./calculator.js").Release & {inputs: Columns}} LoadedRelease */
/** @typedef {{name: string, policy: "exact" | "private", dimension: number, bounds: number[][] | null, limits: {y: [number, number] | null, noise: [number, number], examples_per_client: number}, version: number, withdrawn: string | null, next_release: number | null, budget: Budget | null, refused: string | null, table?: {client: string, target: string, name: string}, output?: {name: string, unit: string | null, scale: [number, number, number] | null}, settings?: {source: string, clients?: number, joins?: boolean}}} Study */
/** @typedef {{epsilon: number, delta: number, per: string, releases: number, made: number, spent: number, left: number}} Budget */

const MAX_RELEASE_BYTES = 2 ** 28; // of which a browser can still compute

const events = new EventTarget();

export const state = {
  /** @type {Study | null} */
  study: null,
  /** @type {LoadedRelease | null} */
  release: null,
  /** Why nothing new comes; null while the server answers. @type {Refusal | null} */
  trouble: null,
  /** Since when the server does not answer, in seconds since 1970. @type {number | null} */
  silent: null,
  /** Of a client or the operator; only ever here. @type {string | null} */
  token: null,
};

/** @param {"study" | "release" | "trouble"} what @param {() => void} listener */
export function onChange(what, listener) {
  events.addEventListener(what, listener);
}

/** @param {"study" | "release" | "trouble"} what */
function changed(what) {
  events.dispatchEvent(new Event(what));
}

/** The output's name. */
export function target() {
  return state.study?.table?.target ?? "y";
}

/** Why the study makes no further release, in words; null while one will come. */
export function ended() {
  const { study } = state;
  return study === null || study.next_release !== null ? null : (study.refused ?? "the budget is spent");
}

/** Why there is no release to show, in words. */
export function absence() {
  if (state.trouble !== null) return "No release is loaded: see above.";
  if (state.study === null) return "The study is being loaded.";
  if (state.study.version === 0) return "There is no release yet. You can try as soon as the first one is here.";
  return `Release ${state.study.version} is being downloaded.`;
}

/** Follow the study for as long as the page is open. */
export async function follow() {
  await refresh().catch(troubled);
  news(() => state.token, (version) => void update(version), troubled);
}

/** Read the public facts again. */
export async function refresh() {
  state.study = await json("/v1/study?model=false");
  changed("study");
}

/** @param {number} version */
async function update(version) {
  try {
    if (version !== state.release?.version) await download();
    await refresh();
  } catch (error) {
    troubled(error instanceof Refusal ? error : new Refusal(String(/** @type {Error} */ (error).message), null, "unreadable"));
  }
}

async function download() {
  const release = await load(await bytes(await request("/v1/disclosed", { token: state.token }), MAX_RELEASE_BYTES));
  const columns = Columns.of(release, release.dimension);
  state.release = { ...release, inputs: columns };
  changed("release");
}

/** @param {Refusal | null} error */
function troubled(error) {
  const silent = error?.code === "unreachable";
  state.silent = silent ? (state.silent ?? Date.now() / 1000) : null;
  state.trouble = error;
  changed("trouble");
}
