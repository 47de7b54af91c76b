"""The programs of the zoo by file, parsed from the text: the Python that runs the tests may lack torch. A file has programs if
it has a dict of them by name that is called as the file is, in capitals."""
import ast
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def names(source):
    """The names of the programs in a file."""
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.DictComp) and node.targets[0].id == source.stem.upper():
            return [name.id for name in node.value.generators[0].iter.elts]
    return []


SOURCES = [source for source in (HERE.parent / "variants.py", *sorted(HERE.glob("*.py"))) if names(source)]
