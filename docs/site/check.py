"""Checks the site that was built: every link and anchor, and every page in a real browser, narrow to wide."""

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import tempfile
import time
import urllib.parse

WIDTHS, HEIGHT = (390, 768, 1024, 1280, 1920), 900
SCHEMES = ("light", "dark")
TOGETHER = 10  # pages that a tab shows at once
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LINK = re.compile(r"""<(?:a|link|img|script|source)\b[^>]*?\s(?:href|src)=(?:"([^"]*)"|'([^']*)')""")
ANCHOR = re.compile(r"""\s(?:id|name)=(?:"([^"]*)"|'([^']*)')""")
SCRIPT = re.compile(r"<script\b[^>]*>.*?</script>|<!--.*?-->", re.S)

VISIBLE = pathlib.Path(__file__).with_name("visible.js").read_text(encoding="utf-8")
# In every page before it is looked at: all is unfolded, and nothing is on its way from one place to another.
UNFOLDED = """addEventListener('DOMContentLoaded', () => {
    document.querySelectorAll('details').forEach(details => details.open = true);
    const still = document.createElement('style');
    still.textContent = '* { transition: none !important; animation: none !important; }';
    document.head.append(still);
})"""


def pages(site):
    return sorted(path.relative_to(site).as_posix() for path in pathlib.Path(site).rglob("*.html"))


# ---- links


def broken_links(site):
    """What each page links to that is not on the site, as sentences; links to other sites are not followed."""
    site = pathlib.Path(site)
    anchors, links = {}, {}
    for page in pages(site):
        text = SCRIPT.sub("", (site / page).read_text(encoding="utf-8"))
        anchors[page] = {found[0] or found[1] for found in ANCHOR.findall(text)}
        links[page] = {found[0] or found[1] for found in LINK.findall(text)}
    return [wrong for page in links for link in sorted(links[page]) if (wrong := _broken(site, page, link, anchors))]


def _broken(site, page, link, anchors):
    parts = urllib.parse.urlsplit(link.replace("&amp;", "&"))
    if parts.scheme or parts.netloc:
        return None
    path = urllib.parse.unquote(parts.path)
    target = os.path.normpath(f"{page}/../{path}").replace(os.sep, "/") if path else page
    if not (site / target).is_file():
        return f"{page} links to {link}: no such file"
    anchor = urllib.parse.unquote(parts.fragment)
    if anchor and target in anchors and anchor not in anchors[target]:
        return f"{page} links to {link}: {target} has no such place"
    return None


# ---- the browser


@dataclasses.dataclass
class Seen:
    """What a browser found: sentences on what is wrong, and how much there was to look at."""

    wrong: list
    pages: int = 0
    formulas: int = 0
    pictures: int = 0


def browser():
    """The path of a Chromium that is installed, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def seen(site, *, processes=2, widths=WIDTHS):
    """Opens every page of the site at every width, light and dark, in the installed Chromium."""
    every = pages(site)
    shares = [every[start::processes] for start in range(processes)]
    total = Seen([])
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        for part in pool.map(_look, [str(site)] * processes, shares, [widths] * processes):
            total.wrong += part.wrong
            total.pages += part.pages
            total.formulas += part.formulas
            total.pictures += part.pictures
    total.wrong.sort()
    return total


def opened(playwright):
    """A browser without a window, where files see files; its sandbox is off for root, who cannot have one."""
    arguments = ["--allow-file-access-from-files"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")
    return playwright.chromium.launch(executable_path=browser(), args=arguments)


def _look(site, share, widths):
    from playwright.sync_api import sync_playwright

    found = Seen([], pages=len(share))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright, opened(playwright) as chromium:
        tab = chromium.new_page(viewport={"width": widths[0], "height": HEIGHT})
        tab.add_init_script(UNFOLDED)
        errors = []
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("requestfailed", lambda request: errors.append(f"not loaded: {request.url}"))

        def look(together):
            """What a reader could see is wrong with pages, by width and scheme, and what the console says."""
            errors.clear()
            _frames(tab, pathlib.Path(folder) / "frames.html", site, together, widths[0])
            states = {}
            for scheme in SCHEMES:
                tab.emulate_media(color_scheme=scheme)
                for width, state in zip(widths, tab.evaluate(VISIBLE, widths), strict=True):
                    states[f"{width} {scheme}"] = state
            return states, list(errors)

        for start in range(0, len(share), TOGETHER):
            together = share[start : start + TOGETHER]
            states, said = look(together)
            for page, *by_state in zip(together, *states.values(), strict=True):
                where = {}
                for name, state in zip(states, by_state, strict=True):
                    for wrong in dict.fromkeys(state["wrong"]):
                        where.setdefault(wrong, []).append(name)
                found.wrong += [f"{page}: {wrong} (at {', '.join(at)})" for wrong, at in where.items()]
                found.formulas += by_state[0]["formulas"]
                found.pictures += by_state[0]["pictures"]
            if said:  # by which of them?
                alone = [f"{page}: console: {error}" for page in together for error in look([page])[1]]
                found.wrong += alone or [f"{' or '.join(together)}: console: {error}" for error in said]
    return found


def _frames(tab, file, site, together, width):
    """Opens pages in frames of one tab, half the work of opening one after the other."""
    frame = f'<iframe style="display: block; visibility: hidden" width="{width}" height="{HEIGHT}" src="%s"></iframe>'
    addresses = [(pathlib.Path(site) / page).absolute().as_uri() for page in together]
    file.write_text("<!doctype html>" + "".join(frame % address for address in addresses), encoding="utf-8")
    tab.goto(file.as_uri())


def pictures(site, names, folder, *, widths=WIDTHS):
    """Takes pictures of whole pages, at every width, light and dark, into a folder; returns their paths."""
    from playwright.sync_api import sync_playwright

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    with sync_playwright() as playwright, opened(playwright) as chromium:
        for scheme in SCHEMES:
            tab = chromium.new_page(color_scheme=scheme)
            for name in names:
                for width in widths:
                    tab.set_viewport_size({"width": width, "height": HEIGHT})
                    tab.goto((pathlib.Path(site) / f"{name}.html").as_uri())
                    taken.append(folder / f"{name.replace('/', '-')}-{width}-{scheme}.png")
                    tab.screenshot(path=taken[-1], full_page=True)
    return taken


def check(site):
    """Prints what is wrong with the site; returns 0 if nothing is."""
    if not pages(site):
        print(f"{site} has no pages: python -m docs build")
        return 1
    started = time.perf_counter()
    wrong = broken_links(site)
    print(f"links of {len(pages(site))} pages: {len(wrong)} broken, in {time.perf_counter() - started:.0f} s")
    if browser() is None:
        print("not opened in a browser: Chromium is not installed (Debian: apt-get install chromium)")
    else:
        started = time.perf_counter()
        look = seen(site)
        print(
            f"{look.pages} pages in Chromium at {', '.join(map(str, WIDTHS))} pixels, {' and '.join(SCHEMES)}, "
            f"{look.formulas} formulas, {look.pictures} pictures: {len(look.wrong)} faults, "
            f"in {time.perf_counter() - started:.0f} s"
        )
        wrong += look.wrong
    print("\n".join(wrong))
    return 1 if wrong else 0
