#!/usr/bin/env bash
# A bootstrap action of EMR on EC2: puts lakeingest into an environment of its own, on each node.
#
#   bootstrap.sh s3://WORK-BUCKET/code [FOLDER]
#
# The release has to bring Spark 4 (emr-spark-8.0.0, emr-spark-8.1.0) and Python 3.11; pip has to reach a package index.
# Jobs are told of it by PYSPARK_PYTHON=FOLDER/bin/python; FOLDER is /opt/lakeingest by default.
set -euo pipefail

code=${1:?name the folder on S3 that infra/emr/package.py made}
folder=${2:-/opt/lakeingest}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

aws s3 cp --recursive --exclude '*' --include 'lakeingest-*.whl' --include constraints.txt "${code%/}/" "$work/"
wheels=("$work"/lakeingest-*.whl)
if [[ ! -f ${wheels[0]} || ${#wheels[@]} -ne 1 ]]; then
  echo "$code has to hold one wheel of lakeingest; it holds: ${wheels[*]##*/}" >&2
  exit 1
fi

sudo python3.11 -m venv "$folder"
sudo "$folder/bin/python" -m pip install --quiet --no-cache-dir -c "$work/constraints.txt" "${wheels[0]}[glue,msk,gate]" pyarrow
"$folder/bin/python" -c 'import lakeingest; print("lakeingest", lakeingest.__version__)'
