"""The rows of a part: what an independent source says, beside what vramtrace says of the same."""
import json


class NotRun(Exception):
    """A part that cannot run here; the text is the reason."""


class Figures:
    """Rows are written one by one: those of a part that hangs or dies are not lost."""

    def __init__(self, path, seconds=0):
        self.path, self.failed = path, 0
        self.seconds = seconds  # that the part has
        self.subject = ""  # put before what the next rows are about
        path.write_text("")

    def row(self, what, source="", true=None, ours=None, verdict="told"):
        self.failed += verdict in ("differs", "no", "too much")
        with open(self.path, "a") as out:
            what = f"{self.subject}: {what}" if self.subject else what
            out.write(json.dumps({"what": what, "source": source, "true": true, "ours": ours, "verdict": verdict}) + "\n")

    def equal(self, what, source, true, ours):
        self.row(what, source, true, ours, "equal" if true == ours else "differs")

    def within(self, what, source, true, ours, share):
        good = abs(true - ours) <= share * abs(true)
        self.row(what, source, true, ours, f"within {share:.1%}" if good else "differs")

    def below(self, what, value, limit, source=""):
        """A share or a ratio; LIMIT is shown in the column of the source."""
        self.row(what, source, f"below {limit}", value, "kept" if value < limit else "too much")

    def holds(self, what, condition, detail=None):
        self.row(what, "", None, detail, "yes" if condition else "no")

    def told(self, what, ours, source="", true=None):
        """Judges nothing: a figure to look at."""
        self.row(what, source, true, ours)


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
