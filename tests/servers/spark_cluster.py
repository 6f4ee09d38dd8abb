"""A Spark standalone cluster of two workers on this machine, from the pip package, and drivers that run on it.

The workers are on two addresses of the loopback device, because Spark starts a second copy of a slow task on another
host only. Every driver is a process of its own, so that it can be killed, and so that it does not disturb the session
of the tests.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import free_port, running
from tests.spark_session import JVM_FLAGS

ROOT = Path(__file__).parent.parent.parent
HOSTS = ("127.0.0.1", "127.0.0.2")
DRIVER_SECONDS = 600.0

CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.driver.extraJavaOptions": JVM_FLAGS,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
"""Of every driver."""

ON_CLUSTER = {
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": JVM_FLAGS,
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    # A job starts when both executors are there, so that what a test kills is not the only one.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


@dataclass(frozen=True)
class Done:
    """A driver that has ended. `code` is negative where a signal ended it."""

    code: int
    output: str


@dataclass(frozen=True)
class Cluster:
    """Two workers with one core each behind `master`."""

    master: str

    def run(self, module: str, *arguments: object, conf: Mapping[str, str] | None = None) -> Done:
        """Run `module`'s `main(spark, *arguments)` in a driver of its own on this cluster, until it ends."""
        return run_driver(module, *arguments, master=self.master, conf={**ON_CLUSTER, **(conf or {})})


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster, ended with everything that it started."""
    port = free_port()
    master = f"spark://{HOSTS[0]}:{port}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_service("master.Master", HOSTS[0], port))
        for host in HOSTS:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="indextables-spark-", ignore_cleanup_errors=True)
            )
            worker = ["--cores", "1", "--memory", "900m", "--work-dir", folder, master]
            stack.enter_context(_service("worker.Worker", host, free_port(), *worker))
        yield Cluster(master)


def run_driver(
    module: str, *arguments: object, master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> Done:
    """As `Cluster.run`, with any master."""
    with started_driver(module, *arguments, master=master, conf=conf) as (process, output):
        try:
            code = process.wait(DRIVER_SECONDS)
        except subprocess.TimeoutExpired:
            shown = output.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{module} {arguments} does not end:\n{shown}") from None
        return Done(code, output.read_text(errors="replace"))


@contextlib.contextmanager
def started_driver(
    module: str, *arguments: object, master: str, conf: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A running driver and the file of its output; what is left of it is killed at the end, its JVM included."""
    with tempfile.TemporaryDirectory(prefix="indextables-driver-", ignore_cleanup_errors=True) as folder:
        output = Path(folder) / "output.txt"
        settings = {**CONFIGURATION, "spark.sql.warehouse.dir": f"{folder}/warehouse", **(conf or {})}
        command = [sys.executable, "-m", "tests.servers.spark_driver", module, master, *map(str, arguments)]
        with output.open("wb") as sink:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**_environment(), "INDEXTABLES_TEST_CONF": "\n".join(f"{k}={v}" for k, v in settings.items())},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process, output
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _service(name: str, host: str, port: int, *arguments: str) -> contextlib.AbstractContextManager[object]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    command = ["bash", home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}"]
    place = ["--host", host, "--port", str(port), "--webui-port", "0"]
    return running(
        [*command, *place, *arguments], port=port, host=host, env={**_environment(), "SPARK_HOME": str(home)}
    )


def _environment() -> dict[str, str]:
    """This interpreter everywhere, and the tests importable by name in drivers, workers and executors."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SPARK_DAEMON_MEMORY": "300m",
        "SPARK_DAEMON_JAVA_OPTS": JVM_FLAGS,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
