"""What Spark, a store or Kafka's reader may say when it fails, and what that means: a table of patterns."""

from __future__ import annotations

from dataclasses import dataclass

from lakeingest.errors import (
    FilesLost,
    LakeingestError,
    NotComputed,
    SetupError,
    SourceUnreachable,
    StorageRefused,
    StorageUnreachable,
    TableChanged,
    TableMismatch,
    UsageError,
)
from lakeingest.spark.settings import S3A


@dataclass(frozen=True)
class KnownFailure:
    """What Spark may say, and what it means.

    Attributes:
        pattern: a pattern that is searched in what the exceptions say; what it names can stand in `message` and `cure`.
        message, cure: with {path}, {bucket}, {where} (the store), {keys} (where they come from), {line} (of Spark's).
    """

    kind: type[LakeingestError]
    pattern: str
    message: str
    cure: str


ANEW = "then run again, in a new process: Hadoop keeps the keys of a bucket as long as a process lives"
MANAGED = KnownFailure(
    TableMismatch,
    r"DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED|Couldn't locate commit coordinator"
    r"|DELTA_UNSUPPORTED_FEATURES_FOR_\w+[^\n]*catalogOwned",
    "{path} is managed by a catalog (catalogManaged), which keeps the newest commits: the log in the store lacks them",
    "name a table that no catalog manages; a copy of this one (CREATE TABLE … AS SELECT) has its records, and "
    "`lakeingest adopt FILE` lets the pipeline go on in it",
)
_TABLE = (
    MANAGED,
    KnownFailure(
        TableMismatch,
        r"DELTA_UNSUPPORTED_FEATURES_FOR_(READ|WRITE)|DELTA_INVALID_PROTOCOL_VERSION",
        "{path} has a feature that this version of Delta does not know: {line}",
        "run on a newer version of Delta (and lakeingest); or drop the feature from the table (ALTER TABLE … DROP "
        "FEATURE …), by the engine that added it",
    ),
    KnownFailure(
        UsageError,
        r"DELTA_TABLE_ONLY_OPERATION|DELTA_MISSING_DELTA_TABLE|PATH_NOT_FOUND|TABLE_OR_VIEW_NOT_FOUND",
        "there is no Delta table at {path} yet",
        "run the pipeline first: it makes the table",
    ),
    KnownFailure(
        TableMismatch,
        r"DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        "the catalog knows no table {path}, but there are files where it would put one: {line}",
        "name the table again that lies there (CREATE TABLE name USING DELTA LOCATION '…'), or give table.name another "
        "name; a catalog in memory forgets its names with each process, so let the session have a lasting one",
    ),
    KnownFailure(
        TableMismatch,
        r"REQUIRES_SINGLE_PART_NAMESPACE|CATALOG_NOT_FOUND|Catalog '[^']+' plugin class not found",
        "the session has no catalog for {path}: {line}",
        "correct the name (spark_catalog, the session's own, takes schema.table), or configure its catalog "
        "(spark.sql.catalog.NAME)",
    ),
    KnownFailure(
        TableChanged,
        r"DELTA_(VIOLATE_CONSTRAINT_WITH_VALUES|NOT_NULL_CONSTRAINT_VIOLATED|MISSING_NOT_NULL_COLUMN_VALUE"
        r"|METADATA_CHANGED|PROTOCOL_CHANGED)",
        "{path} was changed while a batch was written: {line}",
        "run again: the batch is decided anew by what the table is now; see `lakeingest plan`",
    ),
    KnownFailure(
        TableChanged,
        r"DELTA_CONCURRENT_",
        "another commit changed {path} at the same time: {line}",
        "run again: nothing of this one was written",
    ),
    KnownFailure(
        TableChanged,
        r"DELTA_(METADATA_MISMATCH|FAILED_TO_MERGE_FIELDS|MERGE_INCOMPATIBLE_\w+|SCHEMA_CHANGED\w*)",
        "{path} has other columns than the batch that was to be written: {line}",
        "run again: the columns are looked at anew; if that does not help, see in DESCRIBE HISTORY who changed them, "
        "and put them back, or write to a new table under a new pipeline name",
    ),
    KnownFailure(
        TableChanged,
        r"DELTA_TRUNCATED_TRANSACTION_LOG|DELTA_VERSIONS_NOT_CONTIGUOUS|DELTA_LOG_FILE_NOT_FOUND"
        r"|FAILED_READ_FILE\S* [^\n]*/_delta_log/",
        "the log of {path} has a gap, or an object that is damaged: {line}",
        "bring the object of _delta_log back, from the bucket's versions or a backup: nothing but Delta itself may "
        "delete or change one; without it the table cannot be read",
    ),
    KnownFailure(
        FilesLost,
        r"(FILE_NOT_EXIST[^\n]* file |FileNotFoundException: [^\n]*?)(?P<file>\S+\.(parquet|bin))\b",
        "{file} is gone, and the log of {path} names it: its records are missing",
        "bring that very file back, from the bucket's older versions or a backup; or RESTORE the table to a version "
        "before it (DESCRIBE HISTORY), and run: what Kafka still has is read again",
    ),
)
_MACHINE = (
    KnownFailure(
        SetupError,
        r"No FileSystem for scheme|ClassNotFoundException: Class org\.apache\.hadoop\.fs\.",
        "this Spark session cannot open {path}: {line}",
        "write s3a://bucket/path or a local path; for s3:// and s3n:// start the session with hadoop-aws and "
        f"--conf spark.hadoop.fs.s3.impl={S3A}",
    ),
    KnownFailure(
        StorageUnreachable,
        r"No space left on device|Disk quota exceeded|Could not find any valid local directory",
        "a disk is full, while {path} was read or written: {line}",
        "free some space, on the disk of the table or on Spark's own (spark.local.dir, fs.s3a.buffer.dir), then run "
        "again",
    ),
    KnownFailure(
        StorageUnreachable,
        r"DELTA_CANNOT_CREATE_LOG_PATH|Permission denied|Read-only file system|Mkdirs failed|ParentNotDirectory",
        "{path} cannot be written: {line}",
        "let the user of this process write there, or correct the path, then run again",
    ),
)
_RIGHTS = (
    KnownFailure(
        StorageRefused,
        r"Unable to load region",
        "STS cannot be asked for the role, because no region is named: {line}",
        "export AWS_REGION, which AWS's client looks for STS by (on executors too); {anew}",
    ),
    KnownFailure(
        StorageUnreachable,
        r"AssumedRoleCredentialProvider.*(Unable to execute HTTP request|UnknownHostException|Connection refused)",
        "STS does not answer, which is asked for the role: {line}",
        "look at the network to STS of AWS_REGION (or at AWS_ENDPOINT_URL_STS), then run again",
    ),
    KnownFailure(
        StorageRefused,
        r"StsException|sts:AssumeRole",
        "the role of storage.role cannot be assumed: {line}",
        "correct storage.role.arn; let its trust policy name whose keys these are ({keys}), with "
        "storage.role.external_id if it asks for one, and allow these sts:AssumeRole; {anew}",
    ),
    KnownFailure(
        StorageRefused,
        r"not authorized to perform: kms:|KMS\.\w*Denied",
        "the key in KMS that encrypts bucket {bucket} may not be used: {line}",
        "allow kms:GenerateDataKey and kms:Decrypt on the key, in the identity's policy (`lakeingest iam FILE` prints "
        "it) and in the key's own; the keys come from {keys}; {anew}",
    ),
    KnownFailure(
        StorageRefused,
        r"KMS\.\w+|KMS key|Invalid ?arn",
        "the key in KMS that encrypts bucket {bucket} cannot be used: {line}",
        "enable the key, or correct storage.encryption.key: it must be in the bucket's region; {anew}",
    ),
    KnownFailure(
        StorageRefused,
        r"Server Side Encryption with Customer|a form of Server Side Encryption|encryption parameters are not applic",
        "the table in bucket {bucket} is encrypted otherwise than storage.encryption says: {line}",
        "write storage.encryption as the table was written: SSE-C needs its very key, and what SSE-C did not write "
        "takes none; {anew}",
    ),
    KnownFailure(
        StorageRefused,
        r"not authorized to perform: (?P<right>s3:\w+)",
        "the right {right} is missing for {path}: {line}",
        "allow {right} to whose keys these are ({keys}); `lakeingest iam FILE` prints the policy that this pipeline "
        "needs; {anew}",
    ),
)
_OF_CUSTOMER = KnownFailure(
    StorageRefused,
    r"Status Code: 40[03]",
    "the store at {where} refuses bucket {bucket}, without a word (40x), and storage.encryption is SSE-C: {line}",
    "write storage.encryption.key that the table was written with (most likely it is another); if it is the one, allow "
    "s3:GetObject to whose keys these are ({keys}); {anew}",
)
"""A HEAD has no body to say which it is."""
_KEYS = (
    KnownFailure(
        StorageUnreachable,
        r"NoAuthWithAWSException|No AWS Credentials|Unable to load credentials",
        "no keys for bucket {bucket} at {where} are to be found: {line}",
        "write storage.access_key and storage.secret_key, or export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; a "
        "profile is read with storage.options alone (fs.s3a.aws.credentials.provider: "
        "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider); the embedded stack's are used where the file "
        "names no source.bootstrap_servers",
    ),
    KnownFailure(
        StorageUnreachable,
        r"ExpiredToken|TokenRefreshRequired|InvalidToken|security token (included in the request )?is",
        "the session token for bucket {bucket} has expired, or is none: {line}",
        f"renew the temporary keys, which come from {{keys}}; {ANEW}",
    ),
    KnownFailure(
        StorageUnreachable,
        r"RequestTimeTooSkewed",
        "the store at {where} has another time than this machine: {line}",
        "set the clock of this machine, then run again",
    ),
    KnownFailure(
        StorageUnreachable,
        r"AuthorizationHeaderMalformed|PermanentRedirect|IllegalLocationConstraint|Status Code: 301",
        "bucket {bucket} is in another region than it was looked for: {line}",
        "set storage.region to the bucket's, then run again in a new process",
    ),
    KnownFailure(
        StorageUnreachable,
        r"InvalidAccessKeyId",
        "the store at {where} does not know the access key: {line}",
        f"correct the access key, which comes from {{keys}}; {ANEW}",
    ),
    KnownFailure(
        StorageUnreachable,
        r"SignatureDoesNotMatch",
        "the store at {where} knows the access key, but the secret key is another: {line}",
        f"correct the secret key; the keys come from {{keys}}; {ANEW}",
    ),
    KnownFailure(
        StorageUnreachable,
        r"Status Code: 403|AccessDenied\b",
        "the store at {where} denies access to bucket {bucket} (403), of a wrong key or for want of a right: {line}",
        "check the keys, which come from {keys}, and their rights to list, get, put and delete at {path}; " + ANEW,
    ),
)
_STORE = (
    KnownFailure(
        StorageUnreachable,
        r"NoSuchBucket|UnknownStoreException",
        "there is no bucket {bucket} at {where}: {line}",
        "make the bucket, which lakeingest does not, or correct the path (and storage.endpoint), then run again",
    ),
    KnownFailure(
        StorageUnreachable,
        r"Status Code: 400",
        "the store at {where} takes the request for a wrong one (400), and says no more at a first look: {line}",
        "renew the session token, if there is one (the keys come from {keys}), and set storage.region to the bucket's; "
        + ANEW,
    ),
    KnownFailure(
        StorageUnreachable,
        r"s3[an]?://(?P<name>[^/\s]+)/.*UnknownHostException: (?P<host>(?P=name)\.(?!\S*amazonaws\.com)\S+)",
        "no server is called {host}: the bucket's name stands before that of the endpoint: {line}",
        "set storage.path_style: true, which most servers that are not AWS need; then run again in a new process",
    ),
    KnownFailure(
        StorageUnreachable,
        r"UnknownHostException",
        "the server of bucket {bucket} has a name that is not known: {line}",
        "correct storage.endpoint or storage.region, or look at this machine's network, then run again",
    ),
    KnownFailure(
        StorageUnreachable,
        r"Unsupported or unrecognized SSL message",
        "the store at {where} does not speak TLS: {line}",
        "write storage.endpoint with http://, then run again in a new process",
    ),
    KnownFailure(
        StorageUnreachable,
        r"PKIX path|valid certification path|SSLHandshakeException",
        "the certificate of the store at {where} is not trusted: {line}",
        "put its authority into a trust store of Java's, and name that to driver and executors "
        "(spark.driver.extraJavaOptions, spark.executor.extraJavaOptions: -Djavax.net.ssl.trustStore=…)",
    ),
    KnownFailure(
        StorageUnreachable,
        r"Connection refused",
        "nothing listens at {where}, where bucket {bucket} is looked for: {line}",
        "start the store (`lakeingest stack up`, if it is the embedded stack's), or correct storage.endpoint, then "
        "run again",
    ),
    KnownFailure(
        StorageUnreachable,
        r"software\.amazon\.awssdk|fs\.s3a",
        "{path}: {line}",
        "look at the store at {where} and its log; the keys come from {keys}; then run again",
    ),
)


_JAVAS = r"org\.apache\.kafka\..*"
"""What Kafka's Java client says comes with its own exceptions; a store's errors of TLS do not."""
KAFKA_SECURITY = (
    KnownFailure(
        SourceUnreachable,
        r"allowed\.urls",
        "Spark's reader may not ask the server that gives tokens: {line}",
        "start the session with -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=URL (that of "
        "sasl.oauthbearer.token.endpoint.url) in spark.driver.extraJavaOptions and spark.executor.extraJavaOptions: "
        "Kafka's client 4.0 and newer ask no other",
    ),
    KnownFailure(
        SetupError,
        rf"{_JAVAS}(LoginModule class|ClassNotFoundException): [\w.]*msk\.auth\.iam",
        "this Spark session has no classes for sasl.mechanism AWS_MSK_IAM: {line}",
        "start it with software.amazon.msk:aws-msk-iam-auth:2.3.5 (spark.jars.packages), on driver and executors",
    ),
    KnownFailure(
        SourceUnreachable,
        rf"{_JAVAS}(token endpoint|LoginException: [^\n]* token )",
        "Spark's reader gets no token: {line}",
        "let driver and executors reach the server of sasl.oauthbearer.token.endpoint.url, and trust its certificate "
        "(https.ca.location), and let it know sasl.oauthbearer.client.id and .client.secret; then run again",
    ),
    KnownFailure(
        SourceUnreachable,
        rf"{_JAVAS}(NotAfter|CertificateExpiredException)",
        "the broker's certificate has expired, says Spark's reader: {line}",
        "renew it, or correct the clocks of driver and executors; nothing was consumed, run again",
    ),
    KnownFailure(
        SourceUnreachable,
        rf"{_JAVAS}(PKIX path|valid certification path|No (subject alternative|name matching))",
        "Spark's reader does not trust the broker's certificate: {line}",
        "let source.options name the CA of that certificate (ssl.ca.location), and source.bootstrap_servers the broker "
        "as it names it; nothing was consumed, run again",
    ),
    KnownFailure(
        SourceUnreachable,
        rf"{_JAVAS}(fatal alert: \w*certificate|alert bad certificate)",
        "the broker does not take the certificate of Spark's reader: {line}",
        "write ssl.certificate.location and ssl.key.location into source.options, of a certificate that the broker "
        "trusts and that has not expired; nothing was consumed, run again",
    ),
    KnownFailure(
        SourceUnreachable,
        rf"{_JAVAS}(SaslAuthenticationException|UnsupportedSaslMechanismException|SslAuthenticationException)",
        "the broker does not let Spark's reader in: {line}",
        "correct source.options (sasl.username, sasl.password, sasl.mechanism); where they are right, look at the "
        "broker's log; nothing was consumed, run again",
    ),
)
KAFKA = KnownFailure(
    SourceUnreachable,
    r"org\.apache\.kafka\.|KAFKA_DATA_LOSS|not available in Kafka any more",
    "records cannot be read from Kafka: {line}",
    "look at the broker and its log; nothing of the batch was consumed, run again",
)
OF_A_VALUE = KnownFailure(
    NotComputed,
    r"\[(?P<condition>(?!TASK_WRITE_FAILED)[A-Z][A-Z0-9_.]*)\].*SQLSTATE: (?:22\w{3}|P0001)",
    "an expression fails for a record: {condition}; its value is not shown, as it may be one that is masked",
    "let the expression give null there (try_cast, try_divide, try_element_at); code of somebody's own may refuse the "
    "record instead, see lakeingest.extend.Step",
)
_SESSION = _KEYS[:2]
"""What is about the keys themselves, whatever they were to open."""
_BEFORE_THE_STORE = (*_TABLE, *KAFKA_SECURITY, KAFKA, OF_A_VALUE, *_MACHINE, *_SESSION, *_RIGHTS)
CASES = (*_BEFORE_THE_STORE, *_KEYS, *_STORE)
CASES_OF_CUSTOMER = (*_BEFORE_THE_STORE, *_KEYS[:-1], _OF_CUSTOMER, *_STORE)
