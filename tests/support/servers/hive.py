"""A Hive metastore of pyspark's own jars, as a process of its own: a catalog that remembers names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from support.servers import free_port, serving

from lakeingest.local import artifacts


@contextmanager
def metastore(folder: Path) -> Iterator[Path]:
    """A folder for $SPARK_CONF_DIR whose sessions have it; it ends with the block, and its log is in the folder."""
    port, conf, warehouse = free_port(), folder / "conf", folder / "warehouse"
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/derby;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(warehouse),
        # Spark brings no library that its log would need for that.
        "hive.async.log.enabled": "false",
    }
    properties = [f"-D{name}={value}" for name, value in settings.items()]
    words = ["--hiveconf", "hive.metastore.port=" + str(port), "-p", str(port)]
    command = [str(artifacts.java()), *properties, f"-Dderby.stream.error.file={folder}/derby.log", "-cp"]
    command += [
        os.path.join(Path(pyspark.__file__).parent, "jars", "*"),
        "org.apache.hadoop.hive.metastore.HiveMetaStore",
    ]
    with serving([*command, *words], port, folder / "metastore.log"):
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(
            "spark.sql.catalogImplementation hive\n"
            f"spark.hadoop.hive.metastore.uris thrift://127.0.0.1:{port}\n"
            f"spark.sql.warehouse.dir {warehouse}\n"
        )
        yield conf
