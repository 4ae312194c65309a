"""Formulas become native MathML when the site is built, so that a reader's browser runs no script for them.

``pymdownx.arithmatex`` finds $…$ and $$…$$ outside code and marks them; this hook replaces what it marked.
"""

from __future__ import annotations

import re
from html import unescape

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

MARKED = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
MENDED = {
    "<mover>": '<mover accent="true">',  # else bars and tildes are set as small as exponents
    "<mi>&#x0007E;</mi>": "<mo>&#x0223C;</mo>",  # \sim is a relation
}


def on_page_content(html: str, **_: object) -> str:
    return MARKED.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    formula = unescape(found[2]).strip()
    mathml = convert(formula, display="block" if found[1] == "div" else "inline")
    if "\\" in mathml or "<mi>&</mi>" in mathml:  # what the converter does not know it passes on as text
        raise PluginError(f"not a formula that can be shown: {formula}")
    for shown, right in MENDED.items():
        mathml = mathml.replace(shown, right)
    return mathml
