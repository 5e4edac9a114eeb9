"""`python -m docs build` makes the site, `python -m docs serve` shows it."""

import argparse
import functools
import http.server
import sys

from docs.site import build, check, notebooks


def serve(port):
    """Shows the site at http://localhost:port until it is interrupted."""
    if not (build.SITE / "index.html").exists():
        print("docs/_site is not there: python -m docs build")
        return 1
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=build.SITE)
    with http.server.ThreadingHTTPServer(("localhost", port), handler) as server:
        print(f"http://localhost:{server.server_port}")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0


def main():
    parser = argparse.ArgumentParser(prog="python -m docs", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="docs/ becomes docs/_site/")
    command.add_argument("--only", metavar="PAGE", help="build a single page, for example course/softmax")
    command.add_argument("--draft", action="store_true", help="print warnings, but do not fail")
    command.add_argument("-j", "--processes", type=int, default=2, help="how many (2)")
    command = commands.add_parser("serve", help="show docs/_site/")
    command.add_argument("--port", type=int, default=8000)
    commands.add_parser("check", help="every link, and every page in Chromium, narrow to wide")
    command = commands.add_parser("pictures", help="pictures of pages, narrow to wide, light and dark")
    command.add_argument("folder", metavar="DIR")
    command.add_argument("pages", nargs="+", metavar="PAGE", help="for example course/softmax")
    command = commands.add_parser("notebooks", help="every chapter as a notebook and as a script")
    command.add_argument("folder", metavar="DIR", nargs="?", default="notebooks")
    args = parser.parse_args()
    if args.command == "notebooks":
        try:
            print(f"{len(notebooks.write(args.folder))} chapters, each as .ipynb and .py, in {args.folder}")
        except ModuleNotFoundError as missing:
            print(f"notebooks need {missing.name}: python -m pip install -e '.[docs]'", file=sys.stderr)
            return 1
        return 0
    if args.command == "check":
        return check.check(build.SITE)
    if args.command == "pictures":
        print("\n".join(map(str, check.pictures(build.SITE, args.pages, args.folder))))
        return 0
    if args.command == "serve":
        return serve(args.port)
    return build.build(only=args.only, draft=args.draft, processes=args.processes)


if __name__ == "__main__":
    sys.exit(main())
