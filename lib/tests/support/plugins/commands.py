"""Commands as tests run them; a plugin of pytest."""

import pytest

from tramplab import cli


@pytest.fixture
def tramplab(capsys):
    """Run a command in this process; returns (status, stdout, stderr)."""

    def run(*arguments):
        status = cli.main([str(a) for a in arguments])
        out = capsys.readouterr()
        return status, out.out, out.err

    return run
