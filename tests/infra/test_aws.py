"""The stack for AWS: synthesized without an account and without a finding, with least rights; spoilt ones are found."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.servers import infra_tools

from lakeingest.config import PipelineConfig, file

pytestmark = pytest.mark.infra
AWS = infra_tools.INFRA / "aws"
PIPELINE = infra_tools.INFRA / "pipelines" / "flights.yaml"
ACCOUNT = "111122223333"
VARIABLES = {"KAFKA_BOOTSTRAP_SERVERS": "b-1.example.com:9096,b-2.example.com:9096"}
SECRETS = {"KAFKA_USER": "amelia", "KAFKA_PASSWORD": "swordfish"}
ARNS = {name: f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:{name.lower()}" for name in SECRETS}
Template = dict[str, Any]


def synthesize(out: Path, **context: object) -> subprocess.CompletedProcess[str]:
    """What `cdk synth` calls, with the context of cdk.json and some more."""
    of_file = json.loads((AWS / "cdk.json").read_text())["context"]
    given = {"account": ACCOUNT, "region": "eu-west-1", "variables": VARIABLES, "secrets": json.dumps(ARNS)}
    asked = {name: value for name, value in {**of_file, **given, **context}.items() if value is not None}
    environment = {
        # It is not asked for them, and so cannot tell them.
        **SECRETS,
        "CDK_OUTDIR": str(out),
        "CDK_CONTEXT_JSON": json.dumps(asked),
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
        "PYTHONPATH": os.pathsep.join([str(infra_tools.ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    return infra_tools.run("cdk", "python", "app.py", env=environment, cwd=AWS)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cdk")
    done = synthesize(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def template(out: Path) -> Template:
    made: Template = json.loads((out / "Lakeingest.template.json").read_text())
    return made


@pytest.fixture
def config() -> PipelineConfig:
    return file.read(PIPELINE, {**VARIABLES, **SECRETS})


def of_type(template: Template, kind: str) -> dict[str, Any]:
    return {name: each for name, each in template["Resources"].items() if each["Type"] == f"AWS::{kind}"}


def only(template: Template, kind: str, part: str = "") -> Any:
    (found,) = (each["Properties"] for name, each in of_type(template, kind).items() if part in name)
    return found


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def statements(template: Template) -> Iterator[tuple[str, Any]]:
    """Resource → each statement of its policies."""
    for name, each in template["Resources"].items():
        properties = each["Properties"]
        keys = ("PolicyDocument", "KeyPolicy", "AssumeRolePolicyDocument")
        documents = [properties[key] for key in keys if key in properties]
        documents += [policy["PolicyDocument"] for policy in properties.get("Policies", ())]
        for document in documents:
            for statement in document["Statement"]:
                yield name, statement


def broken_laws(template: Template) -> set[str]:
    """What holds for this stack beyond what cfn-lint and checkov look at."""
    return {*_of_buckets(template), *_of_policies(template), *_of_queries(template), *_of_ports(template)}


def _of_buckets(template: Template) -> Iterator[str]:
    policies = [each["Properties"] for each in of_type(template, "S3::BucketPolicy").values()]
    plain = {"Bool": {"aws:SecureTransport": "false"}}
    for name, bucket in of_type(template, "S3::Bucket").items():
        properties = bucket["Properties"]
        own = [s for p in policies if p["Bucket"] == {"Ref": name} for s in p["PolicyDocument"]["Statement"]]
        if not any(each["Effect"] == "Deny" and each["Condition"] == plain for each in own):
            yield "plain HTTP"
        rules = properties["LifecycleConfiguration"]["Rules"]
        if "BucketName" in properties and any("ExpirationInDays" in rule or "Transitions" in rule for rule in rules):
            yield "files of tables expire"
        for kept in ("NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload"):
            if not any(kept in rule for rule in rules):
                yield f"no {kept}"
        (encryption,) = properties.get("BucketEncryption", {}).get("ServerSideEncryptionConfiguration", [{}])
        algorithm = encryption.get("ServerSideEncryptionByDefault", {}).get("SSEAlgorithm")
        if algorithm != ("AES256" if "AccessLogs" in name else "aws:kms"):
            yield "another encryption"
        if (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) != ("Retain", "Retain"):
            yield "data goes with the stack"


def _of_policies(template: Template) -> Iterator[str]:
    for name, statement in statements(template):
        # The key's own policy gives it to the account; without that nobody could change it.
        if statement["Effect"] != "Allow" or name.startswith("StoreKey"):
            continue
        if any(action == "*" or action.endswith(":*") for action in as_list(statement["Action"])):
            yield "wide actions"
        if "*" in as_list(statement.get("Resource", ())):
            yield "all resources"
        if statement.get("Principal") in ("*", {"AWS": "*"}):
            yield "anybody"


def _of_queries(template: Template) -> Iterator[str]:
    work = only(template, "Athena::WorkGroup")["WorkGroupConfiguration"]
    if "EncryptionConfiguration" not in work["ResultConfiguration"]:
        yield "plain results"
    if not work.get("BytesScannedCutoffPerQuery"):
        yield "queries without a limit"


def _of_ports(template: Template) -> Iterator[str]:
    groups = of_type(template, "EC2::SecurityGroup").values()
    rules = [rule for group in groups for rule in group["Properties"].get("SecurityGroupIngress", ())]
    rules += [each["Properties"] for each in of_type(template, "EC2::SecurityGroupIngress").values()]
    if any("CidrIp" in rule for rule in rules):
        yield "an open port"


def test_the_stack_is_a_template(out: Path) -> None:
    """cfn-lint finds no error, and nothing to be warned of."""
    done = infra_tools.run("cdk", "cfn-lint", "--", out / "Lakeingest.template.json")
    assert (done.returncode, done.stdout) == (0, "")


def test_the_stack_is_secure(out: Path) -> None:
    """checkov finds nothing but what is accepted, with a reason."""
    (told,) = checked(out / "Lakeingest.template.json")
    assert [(each["check_id"], each["resource"]) for each in told["failed_checks"]] == []
    accepted = {each["check_id"]: each["check_result"]["suppress_comment"] for each in told["skipped_checks"]}
    assert accepted == {"CKV_AWS_18": "It holds the logs of access; its own would have no end."}
    assert len(told["passed_checks"]) > 100


def checked(*templates: Path) -> Iterator[Any]:
    """checkov's results, file by file."""
    words = [word for path in templates for word in ("--file", path)]
    options = ["--skip-download", "--framework", "cloudformation", "--compact", "--output", "json"]
    done = infra_tools.run("checkov", "checkov", *options, *words)
    told = json.loads(done.stdout)
    yield from (each["results"] for each in as_list(told))


def test_the_laws_hold(template: Template) -> None:
    assert broken_laws(template) == set()


def test_it_is_what_the_pipeline_file_says(template: Template, config: PipelineConfig) -> None:
    """Bucket, database, ports, variables: all of them stand in the file."""
    assert only(template, "S3::Bucket", "lakeexample")["BucketName"] == "lake-example"
    assert only(template, "Glue::Database")["DatabaseInput"]["Name"] == "lake"
    ports = {each["Properties"]["FromPort"] for each in of_type(template, "EC2::SecurityGroupEgress").values()}
    assert 9096 in ports
    schedule = json.dumps(only(template, "Scheduler::Schedule"))
    assert config.name in schedule
    assert VARIABLES["KAFKA_BOOTSTRAP_SERVERS"] in schedule
    for name, arn in ARNS.items():
        assert f"EMR.secret@{arn}" in schedule, name


def test_no_secret_is_in_what_is_written(out: Path) -> None:
    """Neither in the template nor in the files that go to S3."""
    written = [path for path in out.rglob("*") if path.is_file()]
    assert written
    for path in written:
        assert not any(secret.encode() in path.read_bytes() for secret in SECRETS.values()), path


@pytest.mark.parametrize("role", ["writer", "reader", "operator"])
def test_a_role_may_what_lakeingest_iam_says(role: str, template: Template, config: PipelineConfig) -> None:
    """Of the tables that and nothing else; the CDK only sorts and joins the statements."""
    from lakeingest.operations import iam

    (policy,) = only(template, "IAM::Role", f"Roles{role}")["Policies"]
    assert rights(policy["PolicyDocument"]) == rights(iam.policy(config, role, account=ACCOUNT).document)


def rights(document: Any) -> set[tuple[str, str, str, str]]:
    """Each action on each resource."""
    return {
        (each["Effect"], action, json.dumps(resource), json.dumps(each.get("Condition"), sort_keys=True))
        for each in document["Statement"]
        for action in as_list(each["Action"])
        for resource in as_list(each["Resource"])
    }


def test_a_reader_writes_no_table(template: Template) -> None:
    """Besides what `lakeingest iam` gives it: its own answers of Athena, and no job."""
    extra = only(template, "IAM::Policy", "Rolesreader")["PolicyDocument"]
    for _, action, resource, _ in rights(extra):
        assert not action.startswith(("emr-serverless:", "iam:")), action
        if action.startswith(("s3:Put", "s3:Delete")):
            # An object's action means nothing on the bucket itself, which the CDK names too.
            assert "/athena/*" in resource or resource.endswith('"Arn"]}'), action


Spoil = Callable[[Template], object]


def _resource(template: Template, part: str, kind: str) -> Any:
    (found,) = (each for name, each in of_type(template, kind).items() if part in name)
    return found


def _first(template: Template, role: str) -> Any:
    return only(template, "IAM::Policy", role)["PolicyDocument"]["Statement"][0]


def _trust(template: Template, role: str) -> Any:
    return only(template, "IAM::Role", role)["AssumeRolePolicyDocument"]["Statement"][0]


def _lifecycle(template: Template) -> Any:
    return only(template, "S3::Bucket", "lakeexample")["LifecycleConfiguration"]["Rules"]


def _open_port(template: Template) -> None:
    rule = {"CidrIp": "0.0.0.0/0", "FromPort": 22, "ToPort": 22, "IpProtocol": "tcp", "Description": "open"}
    only(template, "EC2::SecurityGroup").setdefault("SecurityGroupIngress", []).append(rule)


SPOILT: dict[str, tuple[Spoil, str]] = {
    "no encryption": (lambda t: only(t, "S3::Bucket", "lakeexample").pop("BucketEncryption"), "law:another encryption"),
    "public": (lambda t: only(t, "S3::Bucket", "lakeexample").pop("PublicAccessBlockConfiguration"), "CKV_AWS_53"),
    "no versions": (lambda t: only(t, "S3::Bucket", "lakeexample").pop("VersioningConfiguration"), "CKV_AWS_21"),
    "no log of access": (lambda t: only(t, "S3::Bucket", "lakeexample").pop("LoggingConfiguration"), "CKV_AWS_18"),
    "plain topic": (lambda t: only(t, "SNS::Topic").pop("KmsMasterKeyId"), "CKV_AWS_26"),
    "plain queue": (lambda t: only(t, "SQS::Queue").pop("KmsMasterKeyId"), "CKV_AWS_27"),
    "a key for ever": (lambda t: only(t, "KMS::Key").pop("EnableKeyRotation"), "CKV_AWS_7"),
    "any action": (lambda t: _first(t, "Roleswriter").update(Action="*", Resource="*"), "CKV_AWS_63"),
    "any action on S3": (lambda t: _first(t, "Roleswriter").update(Action="s3:*"), "law:wide actions"),
    "any resource": (lambda t: _first(t, "Rolesoperator").update(Resource="*"), "law:all resources"),
    "anybody may write": (lambda t: _trust(t, "Roleswriter").update(Principal={"AWS": "*"}), "law:anybody"),
    "an open port": (_open_port, "CKV_AWS_24"),
    "any workgroup": (
        lambda t: only(t, "Athena::WorkGroup")["WorkGroupConfiguration"].update(EnforceWorkGroupConfiguration=False),
        "CKV_AWS_82",
    ),
    "plain results": (
        lambda t: only(t, "Athena::WorkGroup")["WorkGroupConfiguration"]["ResultConfiguration"].pop(
            "EncryptionConfiguration"
        ),
        "law:plain results",
    ),
    "endless queries": (
        lambda t: only(t, "Athena::WorkGroup")["WorkGroupConfiguration"].pop("BytesScannedCutoffPerQuery"),
        "law:queries without a limit",
    ),
    "plain HTTP": (
        lambda t: only(t, "S3::BucketPolicy", "lakeexample")["PolicyDocument"].update(Statement=[]),
        "law:plain HTTP",
    ),
    "tables expire": (
        lambda t: _lifecycle(t).append({"Id": "x", "Status": "Enabled", "ExpirationInDays": 90}),
        "law:files of tables expire",
    ),
    "a bucket that goes": (
        lambda t: _resource(t, "lakeexample", "S3::Bucket").update(DeletionPolicy="Delete"),
        "law:data goes with the stack",
    ),
    "a wrong property": (lambda t: only(t, "S3::Bucket", "lakeexample").update(Encrypted=True), "E3002"),
    "a wrong type": (lambda t: only(t, "Athena::WorkGroup").update(State="ON"), "E3030"),
    "a missing one": (lambda t: only(t, "EMRServerless::Application").pop("ReleaseLabel"), "E3003"),
    "a dead reference": (lambda t: only(t, "Scheduler::Schedule").update(KmsKeyArn={"Ref": "Nothing"}), "E1020"),
}


@pytest.fixture(scope="module")
def findings(template: Template, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Spoilt template → what was found in it: cfn-lint's rules, checkov's, and our laws. Each tool is called once."""
    folder = tmp_path_factory.mktemp("spoilt")
    made, found = {}, {}
    for name, (spoil, _) in SPOILT.items():
        spoilt = copy.deepcopy(template)
        spoil(spoilt)
        path = folder / f"{name.replace(' ', '-')}.json"
        path.write_text(json.dumps(spoilt))
        made[name] = path
        found[name] = {f"law:{law}" for law in broken_laws(spoilt)}
    linted = infra_tools.run("cdk", "cfn-lint", "--format", "json", "--", *made.values())
    for each in json.loads(linted.stdout):
        (name,) = (name for name, path in made.items() if each["Filename"].endswith(path.name))
        found[name].add(each["Rule"]["Id"])
    for told in checked(*made.values()):
        for each in told["failed_checks"]:
            (name,) = (name for name, path in made.items() if each["file_path"].endswith(path.name))
            found[name].add(each["check_id"])
    return found


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_stack_is_found(name: str, findings: dict[str, set[str]]) -> None:
    """Each by its own rule."""
    wanted = SPOILT[name][1]
    assert [each for each in findings[name] if each.startswith(wanted)], findings[name]


@pytest.mark.parametrize(
    ("context", "told"),
    [
        ({"account": None}, "the context lacks account; write -c account=…"),
        ({"pipelines": ""}, "the context lacks pipelines"),
        ({"pipelines": "../pipelines/none.yaml"}, "no such file"),
        ({"secrets": "{"}, "secrets is no JSON"),
        ({"secrets": {}}, "${KAFKA_PASSWORD} is not set"),
    ],
    ids=str,
)
def test_a_wrong_context_is_refused(context: dict[str, Any], told: str, tmp_path: Path) -> None:
    """In a sentence that says which; before anything is written."""
    done = synthesize(tmp_path / "out", **context)
    assert done.returncode != 0
    assert told in done.stderr
    assert not (tmp_path / "out" / "Lakeingest.template.json").exists()


def test_an_old_release_is_refused(tmp_path: Path) -> None:
    """EMR 7 has Spark 3.5."""
    done = synthesize(tmp_path, release="emr-7.13.0")
    assert done.returncode != 0
    assert (
        "for emr-7.13.0 nobody has listed the jars that it lacks: name one of emr-spark-8.0.0, emr-spark-8.1.0"
        in done.stderr
    )


def test_what_a_pipeline_names_has_to_go_with_it(tmp_path: Path) -> None:
    """A suite outside the folder of the pipeline file would be missing in the job."""
    outside = tmp_path / "suite.json"
    outside.write_text('{"name": "s", "expectations": []}')
    (tmp_path / "pipelines").mkdir()
    text = PIPELINE.read_text() + "\ngate: {suite: ../suite.json}\n"
    (tmp_path / "pipelines" / "flights.yaml").write_text(text)
    done = synthesize(tmp_path / "out", pipelines=str(tmp_path / "pipelines" / "flights.yaml"))
    assert done.returncode != 0
    assert "suite" in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PIPELINE.read_text(), "two pipeline files have the name flights"),
        (
            PIPELINE.read_text()
            .replace("name: flights", "name: local", 1)
            .replace("s3a://lake-example", "/data")
            .replace("  name: lake.flights\n  catalog: glue\n", ""),
            "nothing of pipeline 'local' is in AWS",
        ),
    ],
    ids=["one name", "no AWS"],
)
def test_what_cannot_be_deployed_is_refused(text: str, told: str, tmp_path: Path) -> None:
    """A second writer; a table that lies on a machine."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "p.yaml").write_text(text)
    done = synthesize(tmp_path / "out", pipelines=f"{PIPELINE},{tmp_path / 'other' / 'p.yaml'}")
    assert done.returncode != 0
    assert told in done.stderr


def test_two_pipelines_share_what_can_be_shared(tmp_path: Path) -> None:
    """One application and one bucket; a job and three roles for each."""
    (tmp_path / "pipelines").mkdir()
    files = []
    for name in ("flights", "delays"):
        path = tmp_path / "pipelines" / f"{name}.yaml"
        path.write_text(PIPELINE.read_text().replace("flights", name))
        files.append(str(path))
    done = synthesize(tmp_path / "out", pipelines=",".join(files))
    assert done.returncode == 0, done.stderr
    template = json.loads((tmp_path / "out" / "Lakeingest.template.json").read_text())
    counts = {
        kind: len(of_type(template, kind))
        for kind in ("EMRServerless::Application", "Scheduler::Schedule", "S3::Bucket")
    }
    assert counts == {"EMRServerless::Application": 1, "Scheduler::Schedule": 2, "S3::Bucket": 3}
    assert len([name for name in of_type(template, "IAM::Role") if "Roles" in name]) == 6
    assert broken_laws(template) == set()
