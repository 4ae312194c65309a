/** The view of the study: what it is, its release and the next, what protects its clients, and the average. */

import { predict } from "./calculator.js";
import { gauge } from "./charts.js";
import { CurvePanel } from "./curves.js";
import { byId, element, fill } from "./dom.js";
import { outputTitle } from "./output.js";
import { averageList, scale } from "./ranking.js";
import { absence, onChange, state } from "./state.js";
import { clock, count, duration, number } from "./words.js";

const panel = new CurvePanel("study");

export function start() {
  onChange("study", show);
  onChange("release", () => void draw());
  onChange("release", show);
  onChange("trouble", show);
  setInterval(showTimes, 1000);
}

/** When the view appears: charts need a width. */
export function appear() {
  void draw();
}

function show() {
  const { study } = state;
  if (study === null) return;
  document.title = study.name;
  fill(byId("name"), study.name);
  fill(byId("sentence"), sentence());
  fill(byId("facts"), fact("Release", element("span", { id: "release" })), fact("Next release", element("span", { id: "next" })), fact("Policy", policy()), fact("Settings", settings()));
  fill(byId("privacy"), ...privacy());
  byId("empty").hidden = study.version !== 0;
  byId("average").hidden = study.version === 0;
  byId("average-empty").hidden = state.release !== null;
  fill(byId("average-empty"), state.release === null ? absence() : "");
  showTimes();
}

function sentence() {
  const { release } = state;
  const along = release === null || release.names !== null ? "" : ` along ${release.inputs.columns.map((column) => column.name).join(", ")}`;
  const over = release?.names ? ` over ${count(release.names.length, "item")}` : ` of ${outputTitle()}${along}`;
  return `Many clients teach one shared average${over}, and each of them gets an estimate of its own. So can you, under “Try it”, without sending anything.`;
}

function policy() {
  return state.study?.policy === "private" ? "private: releases have noise" : "exact: releases have no noise";
}

/** Where the numbers of the model come from, which everybody may read. */
function settings() {
  const from = state.study?.settings;
  if (from?.source !== "pilot") return "from the study file";
  const part = from.joins ? "who take part too; ε does not cover that" : "who take no part";
  return `from a pilot of ${count(from.clients ?? 0, "client")}, ${part}`;
}

/** @param {string} title @param {Node | string} content */
function fact(title, content) {
  return element("div", { class: "fact" }, element("dt", {}, title), element("dd", {}, content));
}

function showTimes() {
  const { study } = state;
  const [release, next] = [document.getElementById("release"), document.getElementById("next")];
  if (study === null || release === null || next === null) return;
  const left = study.next_release === null ? null : study.next_release - Date.now() / 1000;
  const made = study.budget === null ? "" : ` of ${study.budget.releases}`;
  fill(release, study.withdrawn ? "withdrawn" : study.version === 0 ? "none yet" : study.budget?.per === "study" ? `${study.version}${made}` : `${study.version}`);
  if (left === null) fill(next, "none: the budget is spent");
  else if (left > 0.5) fill(next, `in ${duration(left)}`, element("small", {}, ` at ${clock(/** @type {number} */ (study.next_release))}`));
  else fill(next, "is being computed");
  if (study.version === 0)
    fill(byId("empty"), study.withdrawn
      ? "The release is withdrawn, since it had data that were removed. The next one appears here by itself."
      : left === null
      ? "Nothing is released, and no release will come."
      : `Nothing is released yet. The first release is due at ${clock(/** @type {number} */ (study.next_release))}, and appears here by itself.`);
}

function privacy() {
  const { study } = state;
  if (study === null) return [];
  if (study.budget === null)
    return [element("p", {}, element("strong", {}, "Releases are without noise."), " Anyone who downloads two of them can rebuild what a client sent in between: this study is for parties who trust each other. What you try on this page is not sent, so nobody can rebuild it.")];
  const { epsilon, delta, per, releases, made, spent } = study.budget;
  const times = Math.exp(epsilon);
  const words = per === "client"
    ? `Each client has a budget of its own, ε = ${number(epsilon)} for ${count(releases, "release")}; later ones leave it out, and the study goes on. ${count(made, "release")} ${made === 1 ? "is" : "are"} out: a client that was in all it could be in has spent ε = ${spent.toFixed(2)}.`
    : study.next_release === null && study.refused !== null
    ? `All of it is spent: ${count(made, "release")} ${made === 1 ? "is" : "are"} out. The last one stays valid, and no more will come: what clients send from now on is in none.`
    : `${made} of ${count(releases, "release")} ${made === 1 ? "is" : "are"} out. They spent ε = ${spent.toFixed(2)} of ${number(epsilon)}; the rest pays for ${count(Math.max(0, releases - made), "more release", "more releases")}.`;
  return [
    element("h2", {}, "What protects the people in it"),
    gauge(spent / epsilon, `privacy budget: ${spent.toFixed(2)} of ${number(epsilon)} spent`),
    element("p", { id: "budget" }, words),
    element("p", {}, `Each release is a sum over all clients with random noise on it. Whoever has every release, and any other knowledge, can hardly tell whether one given person took part: what they see is at most ${number(Math.round(times))} times (e^ε) as likely with that person as without, but for a chance of 1 in ${Math.round(1 / delta).toLocaleString("en")} (δ). That holds against everybody who downloads releases. It does not hold against the operator of this server, who receives what clients send: if you do not trust the operator, stay passive and use “Try it” only.`),
    study.refused !== null && study.next_release !== null ? element("p", { class: "warning" }, `The last release that was due was not made: ${study.refused}`) : null,
  ];
}

async function draw() {
  const { release } = state;
  const place = byId("average-chart");
  if (release === null || !place.clientWidth) return;
  try {
    if (release.names === null) {
      if (!place.contains(panel.root)) fill(place, panel.root);
      fill(byId("average-title"), `The average ${outputTitle()}`);
      await panel.draw();
      return;
    }
    const { average } = await predict({ at: "catalogue" });
    fill(byId("average-title"), "The average's top 20");
    fill(place, averageList(release.names, average, scale(average)));
  } catch (error) {
    fill(place, element("p", { class: "warning" }, `No average: ${/** @type {Error} */ (error).message}`));
  }
}
