"""The short form of programs.py: bytes of the trace are PyTorch's own, with values and without. Its long form's rows are well-formed."""
import pytest

import made
import programs
from helpers import PYTHON

HERE = {name: program for name, program in programs.read().items() if program.repository == programs.OWN}


def test_rows():
    rows = programs.read().values()
    assert all(callable(getattr(made, name)) for program in rows for name in program.data.split())
    assert len(rows) - len(HERE) >= 40 and all(len(program.commit) == 40 for program in rows if program.repository != programs.OWN)


@pytest.mark.parametrize("name", HERE)
def test_short_form(name, tmp_path):
    runner, program = programs.Runner(PYTHON, None, tmp_path), HERE[name]
    assert not runner.why_not(program)
    on = runner.run(program)
    told = (tmp_path / name / "on" / "output").read_text()
    assert on["status"] == 0 and "✓ fits" in told, told
    assert on["recorded"] == on["counted"] and len(on["recorded"]) == program.gpus(), on
    if program.gpus() == 1:  # ranks that exchange objects need values
        assert runner.run(program, "off")["recorded"] == on["recorded"]
