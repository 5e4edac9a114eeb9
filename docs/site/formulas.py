"""LaTeX becomes MathML when the site is built, so that no reader needs a network, JavaScript or fonts for it."""


def mathml(latex, *, display):
    """The MathML of one formula; ValueError where it is not LaTeX, or has a command that is unknown."""
    from math_core import LatexError, LatexToMathML

    convert = LatexToMathML(fancy_error=False).convert_with_local_state
    try:
        return convert(latex, displaystyle=display)
    except LatexError as error:
        raise ValueError(f"not a formula: {latex!r}: {error}") from None


def setup(app):
    from docutils import nodes
    from sphinx.util import logging

    logger = logging.getLogger(__name__)

    def typeset(node, *, display):
        try:
            return mathml(node.astext(), display=display)
        except ValueError as error:
            logger.error(str(error), location=node)
            return ""

    def inline(translator, node):
        translator.body.append(typeset(node, display=False))
        raise nodes.SkipNode

    def block(translator, node):
        translator.body.append(f'<div class="formula">{typeset(node, display=True)}</div>\n')
        raise nodes.SkipNode

    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
