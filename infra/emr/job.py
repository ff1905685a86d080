"""A command of lakeingest in the Spark session of a job: on EMR Serverless, on EMR on EC2, by the Spark operator.

    spark-submit --archives FOLDER.zip#files job.py run flights.yaml --until-caught-up

Files are taken from the archive that is called `files`, where there is one. The exit code is the command's.
"""

from __future__ import annotations

import os

from pyspark import SparkFiles
from pyspark.sql import SparkSession

# lakeingest uses the session that is there, and this is the cluster's.
SparkSession.builder.appName("lakeingest").getOrCreate()
if os.path.isdir(files := SparkFiles.get("files")):
    os.chdir(files)

from lakeingest.cli import main  # noqa: E402

main()
