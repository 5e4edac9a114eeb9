"""The Unicode notation of docstrings, y = γ (x − μ)/√(σ² + ε) + β, as LaTeX, where its meaning is sure.

What is not sure stays text: `latex` raises ValueError. A letter may have a bar, hat, dot or tilde, subscripts and
superscripts; words are functions that are known; a/b becomes a fraction only where both are single factors.
"""

import re
import unicodedata

ACCENTS = {"\u0304": "bar", "\u0302": "hat", "\u0303": "tilde", "\u0307": "dot", "\u0308": "ddot", "\u0305": "bar"}
NAMES = """alpha beta gamma delta varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau varphi chi psi omega
Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"""
GREEK = dict(zip("αβγδεζηθκλμνξπρστφχψωΓΔΘΛΞΠΣΦΨΩ", NAMES.split(), strict=True))
SYMBOLS = {
    "−": "-", "+": "+", "·": r"\cdot", "×": r"\times", "±": r"\pm", "∓": r"\mp", "⊙": r"\odot", "∘": r"\circ",
    "=": "=", "≠": r"\ne", "≤": r"\le", "≥": r"\ge", "<": "<", ">": ">", "≈": r"\approx", "~": r"\sim", "∈": r"\in",
    "∝": r"\propto", "→": r"\to", "↦": r"\mapsto", "⇒": r"\Rightarrow", "⇔": r"\Leftrightarrow", "∂": r"\partial",
    "∇": r"\nabla", "∞": r"\infty", "Σ": r"\sum", "∑": r"\sum", "Π": r"\prod", "∏": r"\prod", "∫": r"\int",
    "ℝ": r"\mathbb{R}", "½": r"\tfrac12", "¼": r"\tfrac14", "¾": r"\tfrac34", "⅓": r"\tfrac13", "…": r"\dots",
    "∪": r"\cup", "∩": r"\cap", "⊂": r"\subset", "‖": r"\|", "≫": r"\gg", "≪": r"\ll", "ℓ": r"\ell",
}  # fmt: skip
RELATIONS = set("=≠≤≥<>≈∈∝↦⇒⇔~")
BINARY = set("+−·×±∓⊙∘/") | RELATIONS | {"→", "*", "-", "∪", "∩", "⊂"}
KNOWN = """exp log sin cos tan tanh sinh cosh arctan max min argmax argmin det diag tr softmax sigmoid relu erf erfc
log1p expm1 sign rank cov var mean logsumexp softplus gelu concat vec cumsum round clip mod Im Re KL MLP LN
LayerNorm RMSNorm FF MHA CNN Linear matmul ReLU"""
FUNCTIONS = set(KNOWN.split())
BRACKETS = {"(": ")", "[": "]", "{": "}", "⌊": "⌋", "⌈": "⌉", "⟨": "⟩"}
OPENING = {"(": "(", "[": "[", "{": r"\{", "⌊": r"\lfloor ", "⌈": r"\lceil ", "⟨": r"\langle "}
CLOSING = {")": ")", "]": "]", "}": r"\}", "⌋": r" \rfloor", "⌉": r" \rceil", "⟩": r" \rangle"}
SUPERSCRIPTS = {c: unicodedata.normalize("NFKC", c).replace("−", "-") for c in "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱˣʸᵃᵇᶜᵈᵉᵏˡᵐᵖʳˢᵗᵘᵛʷᶻʰʲᵍ"}
SUPERSCRIPTS |= {"ᵀ": r"\top", "′": r"\prime", "ᴴ": "H", "ᵝ": r"\beta", "ᵞ": r"\gamma"}
SUBSCRIPTS = {c: unicodedata.normalize("NFKC", c).replace("−", "-") for c in "₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"}
TOKEN = re.compile(r"\d+(?:\.\d+)?(?:e[-−]?\d+)?|[A-Za-z]+\d*|\s+|.", re.S)


def latex(text):
    """The LaTeX of a formula in Unicode; ValueError where its meaning is not sure."""
    parser = _Parser(unicodedata.normalize("NFD", text.strip()))
    result = parser.sequence(None)
    if not result:
        raise ValueError("there is no formula")
    return result


class _Parser:
    """Reads the tokens of a formula from left to right."""

    def __init__(self, text):
        self.tokens = TOKEN.findall(text)
        self.at = 0

    @property
    def next(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self):
        token = self.next
        self.at += 1
        return token

    def unsure(self, what):
        raise ValueError(f"not sure what {what!r} means")

    def sequence(self, end):
        """Factors, operators and commas up to the bracket `end`, or up to the end of the text."""
        parts, last = [], "operator"
        while self.next and self.next != end:
            token = self.next
            if token.isspace():
                self.take()
            elif token in ",;:" or (token in BINARY and token != "/"):
                if last == "operator" and token not in "−+±∓-~," and not (token == "=" and not parts):
                    self.unsure(token)
                self.take()
                wide = r"\;" if end is None else ""
                sign = {"-": "-", "*": "*", ",": f",{wide}", ";": f";{wide}", ":": r"\colon"}
                parts.append(sign.get(token) or SYMBOLS[token])
                last = "operator"
            elif token == "/":
                if last == "operator":
                    self.unsure(token)
                self.take()
                parts.append(self._fraction(parts))
                last = "operator" if parts[-1] == "/" else "factor"
            elif token == "|":
                self.take()
                parts.append("|" + self._scripts())
                last = "bar"
            else:
                if last == "factor" and self.tokens[self.at - 1].isspace():
                    parts.append(r"\,")
                parts.append(self.factor())
                last = "factor"
        if end is not None and self.take() != end:
            self.unsure(end)
        if last == "operator" and parts and parts[-1] not in (",", r",\;"):
            self.unsure(parts[-1])
        return " ".join(parts)

    def _fraction(self, parts):
        """a/b as a fraction where both are single factors that touch the stroke; else the stroke stays."""
        if self.tokens[self.at - 2].isspace() or not self.next or self.next.isspace():
            return "/"
        start = self.at
        under = self.factor()
        touching = self.next and not self.next.isspace() and self.next not in {*",;:)]}|⌋⌉⟩", *BINARY}
        divided = len(parts) > 1 and parts[-2] == "/"  # a/b/c is (a/b)/c
        if (
            divided
            or touching
            or self.next == "/"
            or parts[-1] in ("|", "/")
            or parts[-1].startswith((r"\sum", r"\prod", r"\int"))
        ):
            self.at = start
            return "/"
        return rf"\frac{{{_bare(parts.pop())}}}{{{_bare(under)}}}"

    def factor(self):
        """One factor with its accents and scripts."""
        token = self.take()
        if token in BRACKETS:
            inner = self.sequence(BRACKETS[token])
            base = f"{OPENING[token]}{inner}{CLOSING[BRACKETS[token]]}"
        elif token == "√":
            base = self._root()
        elif token[0].isdigit():
            base = token.replace("−", "-")
            if "e" in base:
                number, power = base.split("e")
                base = rf"{number} \cdot 10^{{{power}}}"
        elif token in GREEK and token not in "ΣΠ":
            base = f"\\{GREEK[token]}"
        elif token in SYMBOLS and token not in BINARY:
            base = SYMBOLS[token]
        elif re.fullmatch(r"[A-Za-z]+\d*", token):
            base = self._word(token)
        else:
            self.unsure(token)
        while self.next in ACCENTS:
            name = ACCENTS[self.take()]
            base = rf"\{name}{{{base}}}" if len(token) == 1 and token not in BRACKETS else rf"\overline{{{base}}}"
        return base + self._scripts()

    def _word(self, word):
        if len(word) == 1:
            return word
        if word in FUNCTIONS:
            return rf"\operatorname{{{word}}}"
        if self.next in ACCENTS and len(word) == 2 and word[0] == "d":  # a differential of x̄
            self.tokens[self.at - 1] = word[1]
            self.at -= 1
            return f"d {self.factor()}"
        if re.fullmatch(r"d[a-zA-Z]", word):
            return f"d{word[1]}"
        return self.unsure(word)

    def _root(self):
        if self.next == "(":
            self.take()
            return rf"\sqrt{{{self.sequence(')')}}}"
        inner = self.factor()
        if self.next and (self.next[0].isalnum() or self.next in GREEK):
            self.unsure("√" + inner)
        return rf"\sqrt{{{inner}}}"

    def _scripts(self):
        above, below = "", ""
        while self.next:
            if self.next in SUPERSCRIPTS:
                above += SUPERSCRIPTS[self.take()] + " "
            elif self.next in SUBSCRIPTS:
                below += SUBSCRIPTS[self.take()] + " "
            elif self.next == "^" and not above:
                above = self._script()
            elif self.next == "_" and not below:
                below = self._script()
            else:
                break
        return (f"_{{{below.strip()}}}" if below else "") + (f"^{{{above.strip()}}}" if above else "")

    def _script(self):
        self.take()
        token = self.next
        if token in ("{", "("):
            self.take()
            return self.sequence(BRACKETS[token])
        if re.fullmatch(r"[A-Za-z]+\d*", token) and len(token) > 1:
            self.take()
            return rf"\text{{{token}}}" if len(token) > 3 or token in FUNCTIONS else " ".join(token)
        if token in ("−", "-"):
            self.take()
            return f"-{self.take()}" if self.next.isalnum() else self.unsure(token)
        if not token or not (token.isalnum() or token in "∞½"):
            self.unsure(token)
        self.take()
        base = f"\\{GREEK[token]}" if token in GREEK else SYMBOLS.get(token, token)
        while self.next in ACCENTS:
            base = rf"\{ACCENTS[self.take()]}{{{base}}}"
        return base


def _bare(part):
    """A factor without the brackets that a fraction makes superfluous."""
    if not (part.startswith("(") and part.endswith(")")):
        return part
    depth = 0
    for place, letter in enumerate(part):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0 and place < len(part) - 1:
            return part
    return part[1:-1]


# ---- formulas among words


def is_formula(text):
    """Whether a text that has LaTeX says something that only a formula does, so that it is not words after all."""
    decomposed = unicodedata.normalize("NFD", text)
    return bool(RELATIONS & set(text)) or any(
        letter in GREEK or letter in SYMBOLS or letter in SUPERSCRIPTS or letter in SUBSCRIPTS or letter in ACCENTS
        for letter in decomposed
        if letter not in "−+→…-"
    )


def pieces(text):
    """A text as pairs (kind, piece): "words" as they stand, "formula" as LaTeX; the longest formulas that are sure."""
    words = re.split(r"(\s+)", text)
    found, plain, at = [], "", 0
    while at < len(words):
        for end in range(len(words), at, -1):
            run = "".join(words[at:end])
            body = run.rstrip(",.;:")
            if words[at].strip() and (end - at) % 2 and is_formula(body) and (made := _among_words(body)):
                if plain:
                    found.append(("words", plain))
                found.append(("formula", made))
                plain, at = run[len(body) :], end
                break
        else:
            plain, at = plain + words[at], at + 1
    return [*found, ("words", plain)] if plain else found


def _among_words(text):
    """The LaTeX of a run of words, or None; "a σ" is an article and a letter."""
    if re.search(r"(?:^|,\s*)[aAI](?:\s+[^\s=≠≤≥<>≈∈∝↦⇒⇔~+−·×/]|$)", text):
        return None
    try:
        return latex(text)
    except ValueError:
        return None


def line(text):
    """A line of a docstring's equations as pieces, its columns apart; None if it has no formula that is sure."""
    columns = [pieces(column) for column in re.split(r"\s{2,}", text.strip()) if column]
    sure = [column for column in columns if column[0][0] == "formula"]
    return columns if sure else None
