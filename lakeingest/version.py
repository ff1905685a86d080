"""The version of lakeingest."""

from importlib import metadata


def installed() -> str:
    """As the installed package's metadata has it; "unknown" where only its files are there, as on a Python path."""
    try:
        return metadata.version("lakeingest")
    except metadata.PackageNotFoundError:
        return "unknown"
