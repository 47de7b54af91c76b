"""The programs of the zoo by file, parsed from the text: the Python that runs the tests may lack torch. A file's programs are its
dict of them by name, `PROGRAMS = {function.__name__: function for function in (...)}`."""
import ast
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def names(source):
    """The names of the programs in a file."""
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.DictComp) and node.targets[0].id == "PROGRAMS":
            return [name.id for name in node.value.generators[0].iter.elts]
    return []


def having_programs(sources):
    return [source for source in sources if names(source)]


SOURCES = having_programs([HERE.parent / "variants.py", *sorted(HERE.glob("*.py"))])
FOLDERS = ("unseen", "fresh", "third")  # programs apart from the tests' own
UNSEEN = {folder: having_programs(sorted((HERE / folder).glob("*.py"))) for folder in FOLDERS}
