"""A JVM with Hadoop, Delta's storage and lakeingest's log store, but no Spark: up in a second."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import py4j.java_gateway
import py4j.protocol
import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from lakeingest.spark import jvm


@contextmanager
def untranslated() -> Iterator[None]:
    """A Spark session in this process has pyspark translate errors of every gateway, as if they were its own JVM's."""
    with mock.patch.object(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value):
        yield


class Driver:
    """One JVM, and the log stores in it.

    Args:
        jars: what a Spark session needs.
        options: further ones of Java's.
    """

    def __init__(self, jars: Sequence[Path], *options: str) -> None:
        hadoop = Path(pyspark.__file__).parent / "jars"
        port, self._process = launch_gateway(
            jarpath=str(next(hadoop.glob("py4j-*.jar"))),
            classpath=os.pathsep.join(map(str, (jvm.JAR, *jars, hadoop / "*"))),
            javaopts=["-Xmx256m", "-Dlog4j2.level=OFF", *options],
            die_on_exit=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        self.jvm = self._gateway.jvm

    def close(self) -> None:
        self._gateway.shutdown()
        self._process.stdin.close()
        self._process.wait()

    def conf(self, **settings: str) -> Any:
        conf = self.jvm.org.apache.hadoop.conf.Configuration()
        conf.set("fs.s3a.impl.disable.cache", "true")
        for key, value in settings.items():
            conf.set(key, value)
        return conf

    def write(self, path: str, actions: Any, conf: Any, store: str = jvm.LOG_STORE, overwrite: bool = False) -> None:
        """Write a version as Delta does; `actions` is a list of lines or a Java iterator."""
        if isinstance(actions, list):
            lines = self.jvm.java.util.ArrayList()
            for action in actions:
                lines.add(action)
            actions = lines.iterator()
        package, _, name = store.rpartition(".")
        made = getattr(getattr(self.jvm, package), name)(conf)
        with untranslated():
            made.write(self.jvm.org.apache.hadoop.fs.Path(path), actions, overwrite, conf)

    def read(self, path: str, conf: Any) -> list[str]:
        made = self.jvm.io.lakeingest.ConditionalS3LogStore(conf)
        with untranslated():
            lines = made.read(self.jvm.org.apache.hadoop.fs.Path(path), conf)
        return [lines.next() for _ in iter(lines.hasNext, False)]

    def names(self, folder: str, conf: Any) -> list[str]:
        """What lies in a folder, as the file system lists it, hidden files too."""
        path = self.jvm.org.apache.hadoop.fs.Path(folder)
        return [status.getPath().getName() for status in path.getFileSystem(conf).listStatus(path)]


def refusal(error: pytest.ExceptionInfo[Py4JJavaError]) -> tuple[str, str]:
    """Class and message of what Java threw."""
    thrown = error.value.java_exception
    return thrown.getClass().getName(), thrown.getMessage()
