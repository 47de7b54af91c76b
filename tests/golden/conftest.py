import pytest

from harness import ANALYZER, LIBRARIES


@pytest.fixture(params=["lines", "trace"])
def recorder(request):
    """Each way to see what the hooks record: harness.LIBRARIES."""
    if request.param == "trace" and not (ANALYZER.exists() and LIBRARIES["trace"].exists()):
        pytest.skip("the recorder or the analyzer is not built")
    return request.param
