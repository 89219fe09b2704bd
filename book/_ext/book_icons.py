"""The theme's icons as outlines in the pages and in its style sheet, instead of 700 kB of script and fonts.

The theme writes icons as empty elements (<i class="fa-solid fa-bars">), which a script of Font Awesome turns into pictures in
the reader's browser, and as letters of its fonts in the style sheet. Here both are done when the book is built. The outlines
are read from the installed theme's copy of Font Awesome Free; its icons are licensed CC BY 4.0, and the notice that says so
stays in the style sheet.
"""

import re
from pathlib import Path
from urllib.parse import quote

import pydata_sphinx_theme
import tinycss2
from tinycss2.ast import Node, QualifiedRule

SCRIPT = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static/scripts/fontawesome.js"

# "arrow-up":[384,512,[8593,"up"],"f062","M214.6 ..."]: name, width, height, other names and letters, letter, outline
_ENTRY = re.compile(r'"?([\w-]+)"?:\[(\d+),(\d+),\[([^\]]*)\],"([0-9a-f]+)","([^"]+)"\]')
_ELEMENT = re.compile(r'<(i|span)\b([^>]*\bclass="(?:[^"]* )?fa(?:[bsr]|-[\w-]+)?[ "][^>]*)>\s*</\1>')
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')
_VARIABLE = re.compile(r'(--[\w-]+):\s*("[^"]*"|var\(--[\w-]+\))')
_FAMILIES = {"fa", "fas", "fab", "fa-solid", "fa-brands"}
_PLAIN = " '=:/.,-"  # what need not be escaped in a quoted data address


class Icons:
    """Outlines by name and letter, and what the style sheets' variables stand for.

    `unknown` collects the classes of icon elements, and the letters, that have no outline here.
    """

    def __init__(self, script: str, sheets: list[str]):
        self.unknown: set[str] = set()
        self._outlines: dict[str, tuple[int, int, str]] = {}
        # The script has brands, regular and solid icons, in this order: solid ones win. Regular ones are not supported.
        for name, width, height, others, letter, path in _ENTRY.findall(script):
            for key in (name, chr(int(letter, 16)), *re.findall(r'"([^"]+)"', others)):
                self._outlines[key] = int(width), int(height), path
        self._variables = dict(pair for css in sheets for pair in _VARIABLE.findall(css))

    def pictures(self, page: str) -> str:
        """A page with its icon elements as the inline SVG that the script would make of them."""
        return _ELEMENT.sub(self._picture, page)

    def _picture(self, element: re.Match) -> str:
        attributes = dict(_ATTRIBUTE.findall(element[2]))
        classes = attributes.pop("class").split()
        name = next((c[3:] for c in classes if c.startswith("fa-") and c[3:] in self._outlines), None)
        if name is None or not _FAMILIES & set(classes):
            self.unknown.add(" ".join(classes))
            return element[0]
        width, height, path = self._outlines[name]
        title = f"<title>{attributes.pop('title')}</title>" if "title" in attributes else ""
        kept = {"class": " ".join(["svg-inline--fa", *(c for c in classes if c not in _FAMILIES)])} | attributes
        kept |= {"aria-hidden": "true", "viewBox": f"0 0 {width} {height}"}
        written = "".join(f' {key}="{value}"' for key, value in kept.items())
        return f'<svg{written}>{title}<path fill="currentColor" d="{path}"/></svg>'

    def block(self, rule: QualifiedRule) -> str:
        """The declarations of a rule of a style sheet, with a mask in place of an icon's letter."""
        declarations = tinycss2.parse_blocks_contents(rule.content, skip_comments=True, skip_whitespace=True)
        content = [entry.value for entry in declarations if entry.lower_name == "content"]
        if content and any(token.type == "ident" and token.value.startswith("fa-") for token in rule.prelude):
            return ""  # the letter of an icon element
        letter = self._letter(content[-1]) if content else ""
        if not "\ue000" <= letter <= "\uf8ff":  # the letters of icons are in this private area
            return tinycss2.serialize(rule.content)
        if letter not in self._outlines:
            self.unknown.add(f"U+{ord(letter):04X}")
            return tinycss2.serialize(rule.content)
        replaced = ("content", "font", "font-family", "font-weight")
        own = [entry.serialize() for entry in declarations if entry.lower_name not in replaced]
        return ";".join([*self._mask(letter), *own])  # the rule's own width and place come last and win

    def _letter(self, value: list[Node]) -> str:
        """The string that a value is, through any number of variables; nothing if it is something else."""
        match [token for token in value if token.type != "whitespace"]:
            case [token] if token.type == "string":
                return token.value
            case [token] if token.type == "function" and token.lower_name == "var":
                meaning = self._variables.get(tinycss2.serialize(token.arguments).strip(), "")
                return self._letter(tinycss2.parse_component_value_list(meaning))
        return ""

    def _mask(self, letter: str) -> list[str]:
        width, height, path = self._outlines[letter]
        svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}'><path d='{path}'/></svg>"
        return [
            'content:""',
            "display:inline-block",
            f"width:{width / height:.4g}em",
            "height:1em",
            "vertical-align:-.125em",
            "box-sizing:content-box",
            "background:var(--tl-icon,currentColor)",
            f'mask:url("data:image/svg+xml,{quote(svg, safe=_PLAIN)}") 0/auto 1em no-repeat',
            "print-color-adjust:exact",
        ]
