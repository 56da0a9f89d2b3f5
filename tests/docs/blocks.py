"""The fenced blocks of a Markdown page: what is in them, and whether the page says that they are not run."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "api"} & set(path.relative_to(DOCS).parts))
NOT_RUN = re.compile(r"\s*<!-- not run: (.+?) -->", re.DOTALL)
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)\n?", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^(:[\w-]+:.*\n)+\n?")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, its line, and the reason for which it is not run."""

    language: str
    text: str
    line: int
    not_run: str | None


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    source = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(source):
        reason = NOT_RUN.match(source, match.end())
        line = source.count("\n", 0, match.start()) + 2
        text = OPTION.sub("", match["text"])
        found.append(Block(match["language"].strip(), text, line, reason and " ".join(reason[1].split())))
    return found


def programs_of(page: Path) -> list[Block]:
    """Return the blocks of Python, whether the build executes them or not."""
    return [block for block in blocks_of(page) if block.language in {"python", "{code-cell}"}]


def commands_of(block: Block) -> list[str]:
    """Return the command lines of a block of console, without their comments."""
    lines = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
    return [line.partition("  #")[0].strip() for line in lines]
