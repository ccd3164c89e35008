"""What the README and the documentation show is run, and what they say it prints is compared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

ABRIDGED = re.compile(r"\s*\.\.\.\s*$")
"""A line of shown output that stands for any number of lines."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text, and where it starts."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line after `$ ` in a console block, and the output that the page shows below it."""

    text: str
    output: Sequence[str]


def blocks(page: Path) -> Iterator[Block]:
    for match in FENCED.finditer(page.read_text()):
        line = match.string.count("\n", 0, match.start()) + 1
        yield Block(page, line, match[1], match[2])


def commands(block: Block) -> Iterator[Command]:
    for shown in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        text, *output = shown.replace("\\\n", "").splitlines()
        yield Command(text, output)


BLOCKS = [block for page in PAGES for block in blocks(page)]


def written_in(language: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "block", [block for block in BLOCKS if block.language == language], ids=str
    )


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A directory to write to, with the examples where the pages expect them."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def run(command: Sequence[str], cwd: Path) -> str:
    scripts = sysconfig.get_path("scripts")
    environment = {**os.environ, "PATH": os.pathsep.join([scripts, os.environ["PATH"]])}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_shows(shown: Sequence[str], printed: str) -> None:
    """Every line of `shown` is printed, in this order; without an ellipsis, one below the other.

    An ellipsis inside a line stands for any text.
    """
    lines = iter(enumerate(printed.splitlines()))
    previous = -1
    gap = True  # before the first line anything may be printed
    for line in shown:
        if ABRIDGED.match(line):
            gap = True
            continue
        pattern = ".*".join(map(re.escape, line.strip().split("...")))
        found = next((at for at, text in lines if re.fullmatch(pattern, text.strip())), None)
        assert found is not None, f"not printed: {line}"
        assert gap or found == previous + 1, f"lines are missing in front of: {line}"
        previous, gap = found, False


def test_pages_have_examples() -> None:
    assert {block.language for block in BLOCKS} >= {"console", "python", "mlir"}


def test_blocks_have_a_known_language() -> None:
    unknown = [str(b) for b in BLOCKS if b.language not in ("console", "python", "mlir", "text")]
    assert not unknown


@written_in("console")
def test_commands(block: Block, workplace: Path) -> None:
    for command in commands(block):
        if command.text.startswith("make "):
            # these take minutes; that the target exists is what can go wrong unnoticed
            run(["make", "--dry-run", *command.text.split()[1:]], ROOT)
        else:
            printed = run(["bash", "-euo", "pipefail", "-c", command.text], workplace)
            assert_shows(command.output, printed)


@written_in("python")
def test_python_example(block: Block, workplace: Path) -> None:
    run([sys.executable, "-c", block.text], workplace)


@written_in("mlir")
def test_mlir_example_is_part_of_a_file(block: Block) -> None:
    files = [path.read_text() for path in (ROOT / "examples").glob("*.mlir")]
    assert any(block.text in text for text in files), f"{block} is in no file of examples/"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", FENCED.sub("", page.read_text()))
    for path, anchor in links:
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def anchors(page: Path) -> set[str]:
    """What links to the headings of a page end in, by the rules of GitHub."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_known_machines_are_listed() -> None:
    (row,) = re.findall(r"^\| a name \|.*$", (ROOT / "docs/planning.md").read_text(), re.MULTILINE)
    shipped = {path.stem for path in (ROOT / "mopt_mlir/machine").glob("*.toml")}
    assert set(re.findall("`([^`]+)`", row)) == shipped


def test_speeds_are_those_of_the_report() -> None:
    """Each cell of README's table, from the comparison on the same host in the report."""
    hosts = {"AMD Zen 5": "znver5", "AMD Zen 4": "znver4", "AMD Zen 3": "znver3"}
    hosts |= {"Intel Granite Rapids": "graniterapids", "Intel Emerald Rapids": "emeraldrapids"}
    row = re.compile(r"^\| ([\w ]+), AVX[-\d]+(.*?) \| (.*) \| (.*)\|$", re.MULTILINE)
    reported = {title: cell for title, cell in reported_speeds() if title not in of_tvm()}
    for host, others, *cells in row.findall((ROOT / "README.md").read_text()):
        operators = "networks" if "layers" in others else "table1"
        for cores, cell in zip(("1 core", "2 cores"), cells, strict=True):
            if cell.strip() not in ("", "not measured"):
                title = f"A cold, {cores}, {hosts[host]}, 32 of {operators}"
                assert cell.strip() in reported.pop(title)
    assert not reported


def test_the_lead_over_tvm_is_that_of_the_report() -> None:
    said = r"ours\s+is\s+(\d\.\d)\s+times\s+as\s+fast\s+\((\w+):\s+(\d\.\d\d)\)"
    (claimed,) = re.findall(said, (ROOT / "README.md").read_text())
    (rows,) = of_tvm().values()
    by_operator = {row.pop("operator"): row for row in rows}
    mean = float(by_operator["mopt-mlir / ..."]["TVM"])
    speeds = {
        name: [float(row[who].split(" ")[0]) for who in ("mopt-mlir", "TVM")]
        for name, row in by_operator.items()
        if " +- " in row["TVM"]
    }
    least, (ours, theirs) = min(speeds.items(), key=lambda item: item[1][0] / item[1][1])
    assert claimed == (f"{mean:.1f}", least, f"{ours / theirs:.2f}")


def of_tvm() -> dict[str, list[dict[str, str]]]:
    """The comparisons in the report in which TVM takes part: of each title the rows, by column."""
    found = {}
    for section in (ROOT / "docs/validation/comparison.md").read_text().split("\n## "):
        table = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
        if table and "TVM" in table[0]:
            title = section.partition("\n")[0]
            found[title] = [dict(zip(table[0], row, strict=False)) for row in table[2:]]
    return found


def test_the_first_words_are_those_of_the_table() -> None:
    """From which least lead to which largest one core has, on the paper's operators."""
    text = (ROOT / "README.md").read_text()
    row = re.compile(r"^\| \w[\w ]+, AVX[-\d]+ \| (\d\.\d\d) ", re.MULTILINE)
    leads = sorted(row.findall(text), key=float)
    claimed = re.search(r"run (\d\.\d\d) to (\d\.\d\d) times", text)
    assert claimed
    assert claimed.groups() == (leads[0], leads[-1])


def test_what_is_said_of_the_trials_is_in_the_report() -> None:
    said = (
        r"random (?:ones|plans) in (\d+ of \d+) cases",
        r"misses (\d+ of \d+) targets (?:for such plans|\(\[below)",
        r"(?:misses|and) (\d+ of \d+)(?: targets \(four| for choices among)",
    )
    readme, report = (
        " ".join((ROOT / page).read_text().split()) for page in ("README.md", "docs/validation.md")
    )
    claimed = [re.findall(pattern, readme) for pattern in said]
    assert claimed == [re.findall(pattern, report) for pattern in said]
    assert [len(found) for found in claimed] == [1, 1, 1]


def reported_speeds() -> Iterator[tuple[str, set[str]]]:
    """Of each comparison in the report its title, and what may be said of it: several things where
    operators share the worst ratio."""
    last = re.compile(r"^\| ([^|]+) \|.*\| (\d\.\d\d) \([^|]+\) \|$", re.MULTILINE)
    for section in (ROOT / "docs/validation/comparison.md").read_text().split("\n## "):
        title, _, text = section.partition("\n")
        if title.startswith("A cold"):
            ratios = dict(last.findall(text))
            mean = ratios.pop("mopt-mlir / ...")
            del ratios["mopt-mlir, best of 5 / ..."]
            worst = min(ratios.values(), key=float)
            names = (name for name, ratio in ratios.items() if ratio == worst)
            yield title, {f"{mean} ({name}: {worst})" for name in names}
