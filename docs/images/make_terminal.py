"""Makes ``terminal.svg`` from a real run: a temporary project, a daemon of its own, a shell. ``make picture`` calls it.

Only the temporary folder's name is replaced, and prompts get a colour; all else is what the commands wrote.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).with_name("terminal.svg")
USER = "/home/ada"
WIDTH = 76

FILES = {
    "src/cart.py": "def total(items):\n    return sum(item.price for item in items)\n",
    "src/tax.py": "RATE = 0.19\n",
    "docs/guide.md": "# Guide\n",
    "README.md": "# Shop\n",
}
STORY = (
    "oxide-ctl watch",
    "oxide-ctl checkpoint -m before-agent",
    "sed -i.bak 's/sum/max/' src/cart.py && rm -r docs   # what a shell does",
    "oxide-ctl diff before-agent --stat",
    "oxide-ctl rewind before-agent --yes",
    "oxide-ctl undo --yes",
)
PAPER, INK = (24, 26, 31), (205, 209, 216)
GREEN, CYAN = (152, 195, 121), (86, 182, 194)
# the eight colours of a terminal, of which the prompt and the comment take one each
THEME = TerminalTheme(PAPER, INK, [PAPER, INK, GREEN, INK, INK, INK, CYAN, INK])


def main() -> None:
    """Writes the picture, or another file that is named."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    with tempfile.TemporaryDirectory(prefix="oxide-") as folder:
        console = played(Path(folder))
    svg = console.export_svg(title="~/shop", theme=THEME, unique_id="oxide", font_aspect_ratio=0.61)
    # a picture loads nothing: the reader's own fixed-width font will do
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace(
        "Fira Code", "ui-monospace, Menlo, Consolas"
    )
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)  # some programs drop the spaces a line begins with
    target.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")


def played(folder: Path) -> Console:
    """A console on which the story was played, in a project below ``folder``."""
    project = folder / "shop"
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    programs = Path(sys.executable).parent
    environ = os.environ | {"OPENOXIDE_HOME": str(folder / "home"), "PATH": f"{programs}:{os.environ['PATH']}"}
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    try:
        for line in STORY:
            done = subprocess.run(
                ["sh", "-c", line], cwd=project, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                check=True,
            )  # fmt: skip
            show(console, line, done.stdout.replace(str(folder.resolve()), USER))
    finally:
        subprocess.run(["oxide-ctl", "-q", "stop"], env=environ, stdout=subprocess.DEVNULL, check=True)
    return console


def show(console: Console, line: str, answer: str) -> None:
    """A prompt with what was typed, and the answer below it."""
    command, _, comment = line.partition("   #")
    console.print(Text.assemble(("$ ", "green"), (command, "bold"), (f"   #{comment}" if comment else "", "cyan")))
    if answer:
        console.print(Text(answer.rstrip("\n")))
    if line != STORY[-1]:
        console.print()


if __name__ == "__main__":
    main()
