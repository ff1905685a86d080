"""Findings of checkov that are accepted, each with its reason, which goes into the template beside the resource."""

from __future__ import annotations

from aws_cdk import CfnResource
from constructs import IConstruct


def accept(construct: IConstruct, finding: str, reason: str) -> None:
    """Let checkov skip a finding of one resource."""
    resource = construct if isinstance(construct, CfnResource) else construct.node.default_child
    assert isinstance(resource, CfnResource)
    before = resource.get_metadata("checkov") or {"skip": []}
    resource.add_metadata("checkov", {"skip": [*before["skip"], {"id": finding, "comment": reason}]})
