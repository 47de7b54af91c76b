"""Reads programs.md: each program with what is expected of it. Needs no torch: the Python that runs the tests may lack it."""
import dataclasses
import functools
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
CATEGORIES = ("training", "inference")  # the topics whose programs record the category of every block
SETS = ("1", "2", "3", "4")  # held out


@dataclasses.dataclass(frozen=True)
class Program:
    topic: str
    name: str
    file: str  # without .py
    expected: dict  # "key: value" of the second column; what stands there alone has itself as value
    held_by: str
    known_wrong: str
    set: str

    @property
    def path(self):
        return HERE / self.topic / f"{self.file}.py"

    def words(self, key):
        """Alternatives, written with " / " between."""
        return self.expected[key].split(" / ") if key in self.expected else []

    @property
    def has_remedy(self):
        return "remedy" in self.expected or "remedy contains" in self.expected

    def verdicts(self):
        """Of a leak, those that are right; [] = it does not leak."""
        first = next(iter(self.expected))
        return [] if first == "no leak" else first.split(" / ")

    def holder_is_right(self, holder):
        if self.held_by.startswith("contains "):
            return any(word in (holder or "") for word in self.held_by.removeprefix("contains ").split(" / "))
        return (holder or "").startswith(self.held_by) if self.held_by else not holder

    def known_shares(self, mode):
        """{group of categories or "all": share that is right at least}, of what is wrong with "rules" or "inspections"."""
        text = re.sub(r" \(.*", "", self.known_wrong)
        if mode == "inspections" and text.startswith("by rules: "):
            return {}
        parts = filter(None, text.removeprefix("by rules: ").split(", "))
        return {group: float(share) for group, _, share in (part.rpartition(" ") for part in parts)}


def parse(topic, cells):
    name, expected, held_by, known_wrong, number = cells
    file, _, function = name.partition(".")
    pairs = (part.partition(": ") for part in expected.split("; "))
    return Program(topic, function or file, file, {key: value or key for key, _, value in pairs}, held_by, known_wrong, number)


@functools.lru_cache(maxsize=None)
def read():
    """{name: program}, in the order of the table."""
    programs, topic = {}, None
    for line in (HERE / "programs.md").read_text().splitlines():
        if line.startswith("## "):
            topic = line[3:]
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 5 and cells[0] != "program" and not cells[0].startswith("---"):
            program = parse(topic, cells)
            assert program.name not in programs, f"two programs are called {program.name}"
            programs[program.name] = program
    return programs


def names(*topics, held_out=""):
    """The programs of these topics in one set; "" = those that the analysis was improved on."""
    return [name for name, program in read().items() if program.topic in topics and program.set == held_out]
