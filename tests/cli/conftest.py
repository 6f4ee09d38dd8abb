from __future__ import annotations

import json

import pytest

from indextables.cli import main


class Ran:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(scope="package", autouse=True)
def _bytecode(tmp_path_factory):
    """Processes that tests start find the bytecode of those before them, as in any installed package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("bytecode")))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture
def command(capfdbinary, tmp_path, monkeypatch):
    """Run one command line; the index cache is the test's own."""
    monkeypatch.setenv("INDEXTABLES_CACHE_DIRECTORY", str(tmp_path / "cache"))

    def run(*arguments):
        capfdbinary.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return run


@pytest.fixture
def log_file(tmp_path):
    """Fifty log lines as JSON lines."""
    path = tmp_path / "today.jsonl"
    with path.open("w") as file:
        for i in range(50):
            line = {
                "ts": f"2024-01-01T00:00:{i:02d}Z",
                "day": "2024-01-01" if i < 25 else "2024-01-02",
                "level": "ERROR" if i % 5 == 0 else "INFO",
                "status": 500 if i % 5 == 0 else 200,
                "message": f"connection timeout req{i}" if i % 5 == 0 else f"all is well req{i}",
            }
            file.write(json.dumps(line) + "\n")
    return path


@pytest.fixture
def logs(command, log_file, tmp_path):
    """A table with the fifty lines."""
    ran = command("ingest", tmp_path / "logs", log_file, "--text", "message", "--fast", "status")
    assert ran.code == 0, ran.err
    return tmp_path / "logs"
