"""What users rehearse their own pipelines with: an object store that fails as they choose, and runs that end there.

    s3.py        a proxy before the object store, which tells its requests apart and spoils those you choose
    process.py   a run of a pipeline file that can be ended with all that it started
    steps.py     the steps of a batch at which to end it
    manifest.py  what was produced, and the two tables held against it

It comes with `pip install 'lakeingest[testing]'`, and says so where that is missing. tests/faults/ rehearses
lakeingest itself with it.
"""

from importlib.util import find_spec

from lakeingest.errors import SetupError

if find_spec("aiohttp") is None:
    raise SetupError(
        "lakeingest.testing needs packages that are not installed", cure="pip install 'lakeingest[testing]'"
    )
