r"""LaTeX as a line of text: \frac{e^{x_i}}{\sum_j e^{x_j}} becomes e^(xᵢ)/(∑ⱼ e^(xⱼ)).

What a command such as \alpha or \sum looks like, pylatexenc knows (the extra `study`); how fractions, roots, scripts
and accents are written in a line stands here. Brackets are put where without them another formula would be read.
Without pylatexenc the LaTeX stays as it is.
"""

import functools
import importlib.util
import re
import unicodedata

TOKEN = re.compile(r"\\(?:[a-zA-Z]+|.)|[{}^_&]|\s+|.", re.S)
LOWER = dict(zip("0123456789+-−=()aehijklmnoprstuvxβγρφχ", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ", strict=True))
UPPER = dict(
    zip(
        "0123456789+-−=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVW⊤′",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵀ′",
        strict=True,
    )
) | {"∗": "∗"}
ACCENTS = {"bar": "\u0304", "hat": "\u0302", "tilde": "\u0303", "dot": "\u0307", "vec": "\u20d7", "overline": "\u0304"}
PLAIN = {"text", "operatorname", "mathrm", "mathsf", "mathtt", "textbf", "textit", "mathit", "boldsymbol", "mathbf"}
SIZES = {"left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "bigg", "Bigg", "displaystyle", "textstyle"}
SIZES |= {"limits", "nolimits", "!", "tag", "biggl", "biggr", "Biggl", "Biggr"}
SPACES = {",": " ", ";": " ", ":": " ", " ": " ", "quad": "   ", "qquad": "     ", "\\": "\n"}
OWN = {"lvert": "|\ue002", "rvert": "\ue003|", "lVert": "‖\ue002", "rVert": "\ue003‖", "mid": " | ", "|": "‖"}
OWN |= {"{": "{", "}": "}", "_": "_", "ast": "∗"}
OWN |= {
    "ne": "≠",
    "neq": "≠",
    "%": "%",
    "&": "&",
    "#": "#",
    "$": "$",
    "top": "⊤",
    "prime": "′",
    "blacksquare": "■",
    "varepsilon": "ε",
}
SIGNS = {"-": "−", "*": "∗"}  # the letter * would be a mark of Markdown
BEFORE, AFTER = "\ue000", "\ue001"  # around the name of a function
FUNCTIONS = {"log", "exp", "max", "min", "sin", "cos", "tanh", "sinh", "cosh", "det", "arg", "argmax", "argmin", "ln"}


def readable(latex: str) -> str:
    """LaTeX as text of one line, or of several where it has rows; the LaTeX itself without pylatexenc."""
    if importlib.util.find_spec("pylatexenc") is None:
        return latex.strip()
    lines = _Reader(latex).until(None).split("\n")
    return unicodedata.normalize("NFC", "\n".join(tidy for line in lines if (tidy := _tidied(line))))


def _tidied(line: str) -> str:
    """With one space where one is needed: log x, but exp(x) and ∂x."""
    line = re.sub(rf"(?<=[\w)\]]){BEFORE}", " ", line).replace(BEFORE, "")
    line = re.sub(rf" *{AFTER} *(?=[(\[_{''.join(LOWER.values())}{''.join(UPPER.values())}]|$)", "", line)
    line = re.sub(rf" *{AFTER} *", " ", line)
    line = re.sub(r"\ue002 *| *\ue003", "", line)
    line = re.sub(r"(?<=\S) {2}(?=\S)", " ", line.strip())
    line = re.sub(r" ([,;.)\]⟩⌋⌉])", r"\1", line)
    return re.sub(r"([(\[⟨⌊⌈∂]) ", r"\1", line)


class _Reader:
    """Reads tokens from left to right; each method returns text."""

    def __init__(self, latex: str):
        self.tokens = TOKEN.findall(latex)
        self.place = 0

    def until(self, end: str | None) -> str:
        """The text up to a token, which is taken too."""
        parts: list[str] = []
        while self.place < len(self.tokens):
            token = self._take()
            if token == end:
                break
            if token in ("^", "_"):
                parts.append(_script(self._argument(), UPPER if token == "^" else LOWER, token))
            else:
                parts.append(self._text(token))
        return "".join(parts)

    def _take(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]

    def _argument(self) -> str:
        """What follows: a group, a command or a letter."""
        self._skip_spaces()
        return self._text(self._take()).strip() if self.place < len(self.tokens) else ""

    def _skip_spaces(self) -> None:
        while self.place < len(self.tokens) and self.tokens[self.place].isspace():
            self.place += 1

    def _text(self, token: str) -> str:
        if token == "{":
            return self.until("}")
        if token == "&":
            return " "
        if token in SIGNS:
            return SIGNS[token]
        if token.isspace():
            return " "
        return self._command(token[1:]) if token[0] == "\\" and len(token) > 1 else token

    def _command(self, name: str) -> str:
        if name in SIZES:
            return ""
        if name in SPACES:
            return SPACES[name]
        if name in ("frac", "tfrac", "dfrac"):
            above, below = _tidied(self._argument()), _tidied(self._argument())
            return FRACTIONS.get((above, below)) or f"{_bracketed(above)}/{_as_factor(below)}"
        if name == "sqrt":
            return "√" + _as_factor(_tidied(self._argument()))
        if name in ACCENTS:
            return re.sub(r"\w", lambda letter: letter[0] + ACCENTS[name], self._argument(), count=1)
        if name in PLAIN:
            text = self._argument()
            return _function(text) if name == "operatorname" else text.replace("−", "-") if name == "text" else text
        if name in FUNCTIONS:
            return _function(name)
        if name in ("underbrace", "overbrace"):
            return self._braced()
        if name in ("begin", "end"):
            return self._environment(self._argument()) if name == "begin" else ""
        return OWN.get(name) or _symbol(name, self)

    def _braced(self) -> str:
        """Text over a brace, and what stands under it in square brackets."""
        text = self._argument()
        if self.place < len(self.tokens) and self.tokens[self.place] in "_^":
            self.place += 1
            return f"{text} [{self._argument()}]"
        return text

    def _environment(self, name: str) -> str:
        """Rows: those of a matrix in brackets, separated by semicolons; of cases and equations line by line."""
        depth, start = 1, self.place
        while self.place < len(self.tokens) and depth:
            token = self._take()
            depth += {"\\begin": 1, "\\end": -1}.get(token, 0)
        inside = "".join(self.tokens[start : self.place - 1])
        self._argument()  # the name after \end
        lines = [line for line in re.split(r"\\\\(?:\[[^]]*\])?", inside) if line.strip()]
        if not name.endswith("matrix") and name != "cases":
            return "\n".join(_Reader(line).until(None).strip() for line in lines)
        rows = "; ".join(", ".join(_tidied(_Reader(part).until(None)) for part in line.split("&")) for line in lines)
        return f"[{rows}]" if name != "cases" else "{ " + rows


FRACTIONS = {("1", "2"): "½", ("1", "3"): "⅓", ("1", "4"): "¼", ("3", "4"): "¾"}
SCRIPTS = "".join({*LOWER.values(), *UPPER.values()}) + "\u0304\u0302\u0303\u0307\u20d7"


def _bracketed(text: str) -> str:
    """In brackets if a space or a sign stands in it outside of brackets."""
    depth = 0
    for letter in text:
        depth += (letter in "([{⌊") - (letter in ")]}⌋")
        if not depth and letter in " +−=∑":
            return f"({text})"
    return text


def _as_factor(text: str) -> str:
    """In brackets unless it is one letter or number, with its scripts, or ∂ or d and a letter."""
    plain = "".join(letter for letter in unicodedata.normalize("NFD", text) if letter not in SCRIPTS)
    return text if re.fullmatch(r"[∂d√]?(\w|\d+)(_\w)?|\([^()]*\)", plain) else f"({text})"


def _function(name: str) -> str:
    return f"{BEFORE}{name}{AFTER}"


def _script(text: str, small: dict[str, str], mark: str) -> str:
    """As small letters if there are all; else after ^ or _, in brackets if it is longer than a letter."""
    letters = text.replace(" ", "")
    if letters and all(letter in small for letter in letters):
        return "".join(small[letter] for letter in letters)
    return mark + (letters if (letters.isalnum() and mark == "_") or len(letters) == 1 else f"({_tidied(text)})")


def _symbol(name: str, reader: _Reader) -> str:
    """A letter or sign as pylatexenc knows it, of mathbb and mathcal with their letter; else the name, as bmod's."""
    if name in ("mathbb", "mathcal", "mathscr", "mathfrak"):
        return _known(f"\\{name}{{{reader._argument()}}}")
    return _known(f"\\{name}") or _function(name.removeprefix("b") if name == "bmod" else name)


@functools.cache
def _known(latex: str) -> str:
    from pylatexenc.latex2text import LatexNodes2Text

    return LatexNodes2Text(math_mode="text").latex_to_text(f"${latex}$").strip()
