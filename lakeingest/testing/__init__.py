"""What users rehearse their own pipelines with: servers that can be hurt, and proxies that hurt what is behind.

    s3.py        a proxy before the object store, which tells its requests apart and spoils those you choose
    wire.py      a proxy before anything else, whose line can be cut, hang, or be slow
    kafka.py     one broker or three, that can be stopped, killed, and asked for a password
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
