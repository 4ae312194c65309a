/** The page of a study: its views, chosen by the address behind #, and what is said about the connection. */

import { byId, element, fill } from "./dom.js";
import { enter } from "./mine.js";
import { follow, onChange, state } from "./state.js";
import { VIEWS } from "./views.js";
import { clock } from "./words.js";

function show() {
  const wanted = location.hash.slice(1);
  const chosen = Object.hasOwn(VIEWS, wanted) ? wanted : Object.keys(VIEWS)[0];
  for (const name of Object.keys(VIEWS)) {
    byId(name).hidden = name !== chosen;
    const link = document.querySelector(`nav a[href="#${name}"]`);
    if (name === chosen) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
  }
  VIEWS[chosen].appear();
}

function showTrouble() {
  const { trouble, silent, release } = state;
  const place = byId("trouble");
  place.hidden = trouble === null;
  if (trouble === null) return;
  if (silent !== null) {
    const works = release === null ? "It loads when the server is back." : `It works on with release ${release.version}: all that you try is computed here.`;
    fill(place, element("strong", {}, `The server has not answered since ${clock(silent)}.`), ` This page tries again by itself. ${works}`);
  } else if (trouble.status === 401)
    fill(place, element("strong", {}, "This study gives its releases to clients only."), " Open “My data” with your token.");
  else fill(place, element("strong", {}, "Something is wrong."), ` ${trouble.message}`);
}

/** A link from the operator has the client's token behind #, which no request has; it leaves the address at once. */
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", "#mine");
  void enter(token);
}

for (const view of Object.values(VIEWS)) view.start();
onChange("trouble", showTrouble);
addEventListener("hashchange", () => {
  takeToken();
  show();
});
byId("script").hidden = false;
byId("plain").hidden = true;
takeToken();
show();
void follow();
