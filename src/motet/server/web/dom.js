/**
 * Elements made from names, attributes and children. Text always becomes a text node, so no data can become markup.
 */

/** @typedef {string | number | boolean | null | undefined | ((event: any) => void)} Attribute */
/** @typedef {Node | string | number | null | undefined} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An attribute that is a function listens to the event of its name; null and false leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, Attribute>} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function element(name, attributes = {}, ...children) {
  return complete(document.createElement(name), attributes, children);
}

/**
 * The same for a picture.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, Attribute>} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Name]}
 */
export function picture(name, attributes = {}, ...children) {
  return complete(/** @type {any} */ (document.createElementNS(SVG, name)), attributes, children);
}

/**
 * @template {Element} Kind
 * @param {Kind} made
 * @param {Record<string, Attribute>} attributes
 * @param {Child[]} children
 */
function complete(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map(asNode));
  return made;
}

/** @param {any} child @returns {Node | string} */
function asNode(child) {
  return child instanceof Node ? child : String(child);
}

/** The element of the page with this id. @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no element ${id}`);
  return found;
}

/** Put a new content in place of an element's. @param {Element} parent @param {...Child} children */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.filter((child) => child !== null && child !== undefined).map(asNode));
}

let refusals = 0;

/** Say at a field why its value is refused; an empty text takes that back. @param {HTMLElement} control @param {string} text */
export function flag(control, text) {
  control.parentElement?.querySelector(":scope > .error")?.remove();
  for (const name of ["aria-invalid", "aria-describedby"]) control.removeAttribute(name);
  if (text === "") return;
  const id = `refusal-${++refusals}`;
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", id);
  control.after(element("small", { id, class: "error", role: "alert" }, text));
}

/** Ask before something that cannot be undone. @param {string} question @param {string} text @param {string} action @returns {Promise<boolean>} */
export function confirmed(question, text, action) {
  return new Promise((resolve) => {
    const close = (/** @type {boolean} */ answer) => () => {
      resolve(answer);
      dialog.remove();
    };
    const dialog = element("dialog", { "aria-labelledby": "question", cancel: close(false) },
      element("h2", { id: "question" }, question), element("p", {}, text),
      element("p", { class: "actions" },
        element("button", { type: "button", click: close(false) }, "Cancel"),
        element("button", { type: "button", class: "danger", click: close(true) }, action)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Offer text as a file to save. @param {string} name @param {string} text */
export function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
