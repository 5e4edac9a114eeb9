"""How the pages of docs/ become a site: Sphinx, with what it lacks on a page each.

conf.py       the settings that Sphinx reads
build.py      the command: docs/ becomes docs/_site/
formulas.py   LaTeX becomes MathML when the site is built
sources.py    the repository's files of code as pages, and where on them a name is defined
links.py      {source}`path#name`, a link to the line of a name, and links to files of the repository
chapters.py   the course: its order, what stands in a chapter, and its folded solutions
notation.py   the Unicode notation of docstrings as LaTeX
reference.py  the pages of the API, their equations typeset
notebooks.py  every chapter as a notebook and as a script
check.py      every link of the site, and every page in a browser
"""
