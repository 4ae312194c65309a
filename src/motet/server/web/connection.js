/**
 * Every request that this page makes: all go to the server it came from, and each is listed for the visitor.
 *
 * Tokens are in memory only. `news` follows the stream of releases, and says when the server is gone and back.
 */

/** @typedef {{time: number, method: string, path: string, sent: number, status: number | null}} Entry */

/** @type {Entry[]} */
export const requests = [];
const listeners = new EventTarget();

/** A refusal of the server, or silence (status null). */
export class Refusal extends Error {
  /** @param {string} message @param {number | null} status @param {string} code */
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Call back after every request. @param {() => void} listener */
export function onRequest(listener) {
  listeners.addEventListener("request", listener);
}

/**
 * @param {string} path
 * @param {{method?: string, token?: string | null, body?: any, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>}
 */
export async function request(path, { method = "GET", token = null, body, signal } = {}) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const entry = { time: Date.now() / 1000, method, path, sent: text === undefined ? 0 : new Blob([text]).size, status: null };
  requests.push(entry);
  listeners.dispatchEvent(new Event("request"));
  /** @type {Record<string, string>} */
  const headers = {};
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (text !== undefined) headers["Content-Type"] = "application/json";
  const settings = { method, headers, body: text, signal, cache: /** @type {RequestCache} */ ("no-store"), credentials: /** @type {RequestCredentials} */ ("omit") };
  const response = await fetch(path, settings).catch(() => {
    throw new Refusal("the server does not answer", null, "unreachable");
  });
  Object.assign(entry, { status: response.status });
  listeners.dispatchEvent(new Event("request"));
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({ error: { message: `status ${response.status}`, code: "" } }));
  throw new Refusal(error.where ? `${error.where}: ${error.message}` : error.message, response.status, error.code);
}

/** @param {string} path @param {Parameters<typeof request>[1]} [options] @returns {Promise<any>} */
export async function json(path, options) {
  return (await request(path, options)).json();
}

/** What a response has, refused as soon as it is too long. @param {Response} response @param {number} limit in bytes */
export async function bytes(response, limit) {
  /** @type {Uint8Array<ArrayBuffer>[]} */
  const chunks = [];
  let size = 0;
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return new Blob(chunks).arrayBuffer();
    chunks.push(value);
    if ((size += value.length) > limit) {
      void reader.cancel();
      throw new Error(`expected at most ${limit} bytes, got more`);
    }
  }
}

const FIRST_PAUSE = 1000; // milliseconds before the stream is opened again,
const LONGEST_PAUSE = 30_000; // doubled each time

/** Do not wait before the stream is opened again. */
export let retry = () => {};

/**
 * Call back with the version of each release, and with whether the server answers; for as long as the page is open.
 * @param {() => string | null} token
 * @param {(version: number) => void} released
 * @param {(error: Refusal | null) => void} changed
 */
export async function news(token, released, changed) {
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    try {
      const response = await request("/v1/stream", { token: token() });
      changed(null);
      pause = FIRST_PAUSE / 2;
      await follow(/** @type {ReadableStream<Uint8Array>} */ (response.body), released);
      changed(new Refusal("the server does not answer", null, "unreachable"));
    } catch (error) {
      changed(error instanceof Refusal ? error : new Refusal("the server does not answer", null, "unreachable"));
    }
    await new Promise((resolve) => {
      retry = () => resolve(undefined);
      setTimeout(resolve, pause);
    });
  }
}

/** Read server-sent events until the stream ends. @param {ReadableStream<Uint8Array>} body @param {(version: number) => void} released */
async function follow(body, released) {
  const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = /** @type {string} */ (events.pop());
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data !== undefined) released(JSON.parse(data.slice(6)).version);
    }
  }
}
