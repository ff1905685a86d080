"""Where brokers, storage and registry are: as the pipeline file says, or else where the embedded stack runs."""

from __future__ import annotations

from lakeingest.config import PipelineConfig, Storage, location
from lakeingest.errors import SetupError
from lakeingest.kafka.glue_registry import GlueClient
from lakeingest.kafka.registry import RegistryClient
from lakeingest.local import running


def addresses(config: PipelineConfig) -> tuple[str, Storage]:
    """Brokers and storage: the file's own, or, where it names no brokers, the running embedded stack's.

    A file that names source.table needs no brokers: they are empty then, and storage is the stack's if one runs.

    Raises:
        SetupError: the file names none, and no stack is running.
    """
    if config.source.bootstrap_servers is not None:
        return config.source.bootstrap_servers, config.storage
    stack = running()
    if stack is None and config.source.table is not None:
        return "", config.storage
    if stack is None:
        raise SetupError(
            f"pipeline {config.name!r} names no brokers, and no embedded stack is running",
            cure="start one with `lakeingest stack up`, or set source.bootstrap_servers (and storage)",
        )
    servers = "" if config.source.table is not None else stack.kafka
    if config.storage.endpoint is not None or config.storage.access_key is not None:
        return servers, config.storage
    keys = {"access_key": stack.s3_access_key, "secret_key": stack.s3_secret_key}
    return servers, Storage.model_validate({"endpoint": stack.s3, **keys, "path_style": True})


def storage(config: PipelineConfig) -> Storage:
    """Storage alone, as `addresses` gives it; tables of this machine need none.

    Raises:
        SetupError: the file names neither storage nor brokers, and no stack is running.
    """
    is_declared = config.storage.endpoint is not None or config.storage.access_key is not None
    on_s3 = any(location.place(path).on_s3 for path in config.paths)
    return addresses(config)[1] if on_s3 and not is_declared else config.storage


def _registry_url(config: PipelineConfig) -> str:
    """Where the schema registry is: the file's own URL, or the running embedded stack's.

    Raises:
        SetupError: the file names none, and no stack is running.
    """
    if config.registry.url is not None:
        return config.registry.url
    stack = running()
    if stack is None:
        raise SetupError(
            f"pipeline {config.name!r} names no schema registry, and no embedded stack is running",
            cure="set registry.url, or start the stack with `lakeingest stack up`",
        )
    return stack.registry


def registry(config: PipelineConfig) -> RegistryClient | GlueClient:
    """The schema registry; asked nothing yet.

    Raises:
        SetupError: the file names none, and no stack is running.
        UsageError: registry.options make no sense.
    """
    if config.registry.glue:
        return GlueClient(config.registry, config.storage)
    return RegistryClient(config.registry, _registry_url(config))
