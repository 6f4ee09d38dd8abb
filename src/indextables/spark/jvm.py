"""What Spark raises on the driver's side."""

from __future__ import annotations

__all__ = ["jvm_errors"]


def jvm_errors() -> tuple[type[Exception], ...]:
    """What calls into Spark raise: its own classes, and Py4J's for what has none of them."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    except ImportError:  # a client of Connect alone
        return (PySparkException,)
    return PySparkException, Py4JError
