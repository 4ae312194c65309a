/**
 * The views of the page: each under its name, which is the address behind #, the id of its section in index.html, and
 * what its link there leads to. The first is shown at first.
 */

import * as mine from "./mine.js";
import * as operator from "./operator.js";
import * as own from "./own.js";
import * as study from "./study.js";

/** `start` is called once; `appear` whenever it is shown, when charts have a width. @typedef {{start: () => void, appear: () => void}} View */

/** @type {Record<string, View>} */
export const VIEWS = {
  study,
  try: own,
  mine,
  operator,
};
