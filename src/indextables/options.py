"""Every option, declared once: key, type, default, check and help.

A key works with or without the prefix `spark.indextables.` and in any case. The first of these that names it wins:
the call, the session, the table's configuration, the environment (`INDEXTABLES_CHECKPOINT_INTERVAL` for
`checkpoint.interval`), the default. Two spellings of one key with different values at the same place are refused.
Nothing outside this module spells an option's key: code asks `options[opt.CHECKPOINT_INTERVAL]`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

from indextables.errors import InvalidArgument

T = TypeVar("T")

PREFIX = "spark.indextables."

_REGISTRY: dict[str, Option[Any]] = {}


class Option(Generic[T]):
    """One option. `parse` turns text into the value or raises ValueError; `check` refuses values out of range."""

    __slots__ = ("aliases", "check", "default", "help", "key", "kind", "parse")

    def __init__(
        self,
        key: str,
        parse: Callable[[str], T],
        default: T,
        help_text: str,
        *,
        check: Callable[[T], bool] | None = None,
        kind: str = "",
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.key = key
        self.parse = parse
        self.default = default
        self.help = help_text
        self.check = check
        self.kind = kind
        self.aliases = aliases
        _REGISTRY[key.lower()] = self
        for alias in aliases:
            _REGISTRY[alias.lower()] = self

    def read(self, value: object, where: str) -> T:
        """The typed value of what was given at `where`. Raises InvalidArgument."""
        text = str(value).strip() if not isinstance(value, bool) else str(value).lower()
        try:
            parsed = self.parse(text)
            if self.check is None or self.check(parsed):
                return parsed
        except ValueError:
            pass
        message = f"option {self.key} = {text!r} (from the {where}) is not {self.kind}: {self.help}"
        raise InvalidArgument(message, option=self.key, value=text)


class Options(Mapping[str, str]):
    """Resolved options: `options[opt.X]` is typed; as a mapping it shows the raw texts that were given."""

    def __init__(
        self,
        call: Mapping[str, object] | None = None,
        *,
        session: Mapping[str, object] | None = None,
        table: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Raises InvalidArgument for a value that is wrong or given twice."""
        self._layers = [
            ("call", _normalise(call or {}, "call")),
            ("session", _normalise(session or {}, "session", prefixed_only=True)),
            ("table configuration", _normalise(table or {}, "table configuration")),
            ("environment", _from_environ(os.environ if environ is None else environ)),
        ]
        for where, layer in self._layers:
            for key, value in layer.items():
                option = _REGISTRY.get(key)
                if option is not None:
                    option.read(value, where)

    @overload
    def __getitem__(self, key: Option[T]) -> T: ...
    @overload
    def __getitem__(self, key: str) -> str: ...
    def __getitem__(self, key: Option[T] | str) -> T | str:
        if isinstance(key, Option):
            for where, layer in self._layers:
                for name in (key.key, *key.aliases):
                    if name.lower() in layer:
                        return key.read(layer[name.lower()], where)
            return key.default
        for _, layer in self._layers:
            if key.lower() in layer:
                return str(layer[key.lower()])
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        seen: set[str] = set()
        for _, layer in self._layers:
            for key in layer:
                if key not in seen:
                    seen.add(key)
                    yield key

    def __len__(self) -> int:
        return len(set().union(*(layer for _, layer in self._layers)))

    def over(self, table: Mapping[str, object]) -> Options:
        """The same call, session and environment on top of a table's configuration. Raises InvalidArgument."""
        copy = Options(table=table, environ={})
        copy._layers = [
            copy._layers[2] if name == "table configuration" else (name, layer) for name, layer in self._layers
        ]
        return copy

    def also(self, call: Mapping[str, object]) -> Options:
        """The same, with more that the call gave. Raises InvalidArgument."""
        copy = Options(call, environ={})
        copy._layers = [
            (name, {**layer, **copy._layers[0][1]}) if name == "call" else (name, layer) for name, layer in self._layers
        ]
        return copy

    def given(self, option: Option[Any]) -> bool:
        """True if somebody set the option, be it to its default."""
        return any(name.lower() in layer for _, layer in self._layers for name in (option.key, *option.aliases))

    def from_operator(self, *prefixes: str) -> dict[str, str]:
        """What the call and the session gave below these prefixes, keys in lower case; the call wins.

        The table's configuration is left out: where bytes come from is not for those bytes to say. So is the
        environment, which every process has its own of.
        """
        found: dict[str, str] = {}
        for _, layer in reversed(self._layers[:2]):
            found.update({key: str(value) for key, value in layer.items() if key.startswith(prefixes)})
        return found

    def below(self, prefix: str) -> dict[str, str]:
        """All given keys that start with `prefix` (lower case), without it; the nearest place wins."""
        found: dict[str, str] = {}
        for _, layer in reversed(self._layers):
            for key, value in layer.items():
                if key.startswith(prefix.lower()):
                    found[key[len(prefix) :]] = str(value)
        return found


def known_options() -> list[Option[Any]]:
    """Every declared option, by key."""
    return sorted({id(o): o for o in _REGISTRY.values()}.values(), key=lambda o: o.key)


def _normalise(given: Mapping[str, object], where: str, *, prefixed_only: bool = False) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in given.items():
        if value is None:
            continue
        if not isinstance(key, str):
            raise InvalidArgument(f"the name of an option is a text, not {key!r} (from the {where})", option=key)
        lower = key.lower()
        if lower.startswith(PREFIX):
            lower = lower[len(PREFIX) :]
        elif lower.startswith("spark.hadoop.fs."):
            lower = lower[len("spark.hadoop.") :]
        elif prefixed_only and not lower.startswith("fs."):
            continue
        if lower in result and str(result[lower]) != str(value):
            message = f"option {lower} is given twice in the {where}, with and without the prefix {PREFIX}: keep one"
            raise InvalidArgument(message, option=lower)
        result[lower] = value
    return result


def _from_environ(environ: Mapping[str, str]) -> dict[str, object]:
    given = {name: value for name, value in environ.items() if name.startswith("INDEXTABLES_")}
    if not given:
        # Every handle and every commit to a table with a configuration comes by here.
        return {}
    names = {option.key.replace(".", "_").upper(): option.key.lower() for option in _REGISTRY.values()}
    found: dict[str, object] = {}
    for name, value in given.items():
        key = names.get(name[len("INDEXTABLES_") :].upper())
        if key is not None:
            found[key] = value
    return found


def _bool(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError(text)


def _flag(key: str, default: bool, help_text: str, **more: Any) -> Option[bool]:  # noqa: FBT001 - a declaration
    return Option(key, _bool, default, help_text, kind="true or false", **more)


def _count(key: str, default: int, help_text: str, *, least: int = 0, **more: Any) -> Option[int]:
    def at_least(value: int) -> bool:
        return least <= value < 2**63

    return Option(key, int, default, help_text, check=at_least, kind=f"a whole number of at least {least}", **more)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,19})\s*([kmgt]?)(i?b)?", text.lower())
    if found is None:
        raise ValueError(text)
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2]]


def _size(key: str, default: int, help_text: str, **more: Any) -> Option[int]:
    kind = "a size of at least 1 byte, such as 268435456 or 256m"
    return Option(key, _bytes, default, help_text, check=lambda v: 1 <= v < 2**63, kind=kind, **more)


def _ratio(key: str, default: float, help_text: str) -> Option[float]:
    return Option(key, float, default, help_text, check=lambda v: 0 <= v <= 1, kind="a number from 0 to 1")


def _choice(key: str, default: str, help_text: str, *choices: str) -> Option[str]:
    def one_of(text: str) -> str:
        if text.lower() in choices:
            return text.lower()
        raise ValueError(text)

    return Option(key, one_of, default, help_text, kind=f"one of {', '.join(choices)}")


def _text(key: str, default: str, help_text: str) -> Option[str]:
    return Option(key, str, default, help_text, kind="text")


# Log
TRANSACTION_CACHE_ENABLED = _flag("transaction.cache.enabled", True, "keep parsed log files in memory")
TRANSACTION_CACHE_EXPIRATION_SECONDS = _count(
    "transaction.cache.expirationSeconds", 300, "how long a cached answer may be used, from its loading"
)
TRANSACTION_USE_OPTIMIZED = _flag(
    "transaction.useOptimized", True, "false selects plain sequential replay; results are the same"
)
TRANSACTION_COMPRESSION_ENABLED = _flag("transaction.compression.enabled", True, "write version files as gzip")
TRANSACTION_RETRY_MAX_ATTEMPTS = _count(
    "transaction.retry.maxAttempts",
    10,
    "how often a commit that lost a race tries again; blind appends are bound only where it is set",
    least=1,
)
TRANSACTION_RETRY_BASE_DELAY_MS = _count("transaction.retry.baseDelayMs", 100, "first wait after a fault")
TRANSACTION_RETRY_MAX_DELAY_MS = _count("transaction.retry.maxDelayMs", 5000, "longest wait after a fault")
TRANSACTION_DISTRIBUTED_ENABLED = _flag(
    "transaction.distributed.enabled", True, "let Spark's tasks read long tails of logs in object stores"
)
TRANSACTION_DISTRIBUTED_MIN_FILES = _count(
    "transaction.distributed.minFiles", 10, "version files from which on tasks read them", least=1
)
TRANSACTION_DISTRIBUTED_PARALLELISM = _count(
    "transaction.distributed.parallelism", 0, "tasks that read a log; 0 is as many as run at the same time"
)
TRANSACTION_DISTRIBUTED_ADAPTIVE = _flag(
    "transaction.distributed.adaptiveParallelism", True, "fewer tasks for fewer version files"
)
COMMIT_TOKEN_WINDOW = _count("commit.tokenWindow", 8192, "how many commit tokens a checkpoint carries", least=1)
COMMIT_MAX_CLOCK_SKEW_MS = _count("commit.maxClockSkewMs", 300_000, "how far the local clock may be off the store's")
ISOLATION_LEVEL = _choice(
    "isolationLevel", "writeserializable", "which concurrent commits conflict", "writeserializable", "serializable"
)
LOG_IGNORE_GAPS = _flag("log.stopAtGap", False, "read a log with a gap up to it, with a warning, instead of raising")
MAX_STALENESS_MS = _count(
    "maxStaleness", 0, "milliseconds for which a read may take the newest version found before for the newest"
)

# Storage
STORAGE_FSYNC = _flag("storage.fsync", True, "make local files survive a power loss before a commit is reported")
STORAGE_TIMEOUT_SECONDS = _count("storage.timeoutSeconds", 30, "deadline of one store call", least=1)
STORAGE_RETRIES = _count("storage.retries", 4, "how often a failed store call is repeated")
STORAGE_ENDPOINT = _text("storage.endpoint", "", "URL of the store's service, where it is not the cloud's own")
STORAGE_REGION = _text("storage.region", "", "region of the bucket")
STORAGE_PATH_STYLE = _flag("storage.pathStyle", True, "name the S3 bucket in the path instead of the host")
STORAGE_ANONYMOUS = _flag("storage.anonymous", False, "do not sign requests (public buckets)")
STORAGE_PROXY = _text("storage.proxyUrl", "", "HTTP proxy for requests to the store")
STORAGE_ACCESS_KEY = _text("storage.accessKey", "", "S3 access key id; needs storage.secretKey")
STORAGE_SECRET_KEY = _text("storage.secretKey", "", "S3 secret access key; needs storage.accessKey")
STORAGE_SESSION_TOKEN = _text("storage.sessionToken", "", "S3 session token of temporary credentials")
STORAGE_AZURE_ACCOUNT = _text("storage.azure.account", "", "Azure storage account, where the URL names none")
STORAGE_AZURE_ACCOUNT_KEY = _text("storage.azure.accountKey", "", "Azure account key")
STORAGE_AZURE_SAS_TOKEN = _text("storage.azure.sasToken", "", "Azure shared access signature")
STORAGE_AZURE_BEARER_TOKEN = _text("storage.azure.bearerToken", "", "Azure OAuth token")
STORAGE_AZURE_TENANT_ID = _text("storage.azure.tenantId", "", "Azure tenant of a service principal")
STORAGE_AZURE_CLIENT_ID = _text("storage.azure.clientId", "", "Azure service principal")
STORAGE_AZURE_CLIENT_SECRET = _text("storage.azure.clientSecret", "", "secret of the Azure service principal")
STORAGE_GCS_SERVICE_ACCOUNT_FILE = _text("storage.gcs.serviceAccountFile", "", "path of a Google service account key")
STORAGE_GCS_SERVICE_ACCOUNT_KEY = _text("storage.gcs.serviceAccountKey", "", "a Google service account key as JSON")
STORAGE_GCS_BEARER_TOKEN = _text("storage.gcs.bearerToken", "", "Google OAuth token")

# Checkpoints and state
CHECKPOINT_ENABLED = _flag("checkpoint.enabled", True, "write checkpoints automatically")
CHECKPOINT_INTERVAL = _count(
    "checkpoint.interval", 10, "commits between checkpoints", least=1, aliases=("delta.checkpointInterval",)
)
CHECKPOINT_ASYNC = _flag("checkpoint.async", False, "write checkpoints in the background")
CHECKPOINT_PARALLELISM = _count("checkpoint.parallelism", 8, "threads that read version files", least=1)
CHECKPOINT_READ_TIMEOUT_SECONDS = _count("checkpoint.read.timeoutSeconds", 30, "patience of a parallel read", least=1)
CHECKPOINT_RETENTION = _count("checkpoint.retention", 0, "version files always kept, counted back from the head")
CHECKPOINT_COMPRESSION = _choice(
    "checkpoint.compression", "snappy", "codec of Parquet checkpoints", "snappy", "zstd", "gzip", "lz4", "none"
)
CHECKPOINT_MAX_FILE_SIZE = _count(
    "checkpoint.maxFileSize", 134_217_728, "a larger checkpoint is written in parts", least=1
)
CHECKPOINT_RETENTION_DURATION = _count(
    "checkpointRetention.duration", 7_200_000, "milliseconds that a superseded checkpoint is kept"
)
LOG_RETENTION_DURATION = _count("logRetention.duration", 2_592_000_000, "milliseconds that version files are kept")
CLEANUP_ENABLED = _flag("cleanup.enabled", True, "clean up old log files after a checkpoint")
CLEANUP_FAILURE_POLICY = _choice("cleanup.failurePolicy", "continue", "what a failed cleanup does", "continue", "fail")
CLEANUP_DRY_RUN = _flag("cleanup.dryRun", False, "list what cleanup would delete, delete nothing")
PURGE_TX_LOG_RETENTION_HOURS = _count(
    "purge.txLogRetentionHours", 720, "hours that version files are kept; where set, it outranks logRetention.duration"
)
STATE_FORMAT = _choice("state.format", "avro", "format of new checkpoints", "avro", "parquet", "json")
STATE_COMPRESSION = _choice("state.compression", "zstd", "codec of Avro manifests", "zstd", "snappy", "deflate", "none")
STATE_COMPRESSION_LEVEL = _count("state.compressionLevel", 3, "zstd level of Avro manifests", least=1)
STATE_READ_PARALLELISM = _count("state.read.parallelism", 8, "threads that read manifests", least=1)
STATE_ENTRIES_PER_MANIFEST = _count("state.entriesPerManifest", 50_000, "entries in a full manifest", least=1)
STATE_COMPACTION_TOMBSTONE_THRESHOLD = _ratio(
    "state.compaction.tombstoneThreshold", 0.10, "share of tombstones above which a state is compacted"
)
STATE_COMPACTION_MAX_MANIFESTS = _count(
    "state.compaction.maxManifests", 20, "undersized manifests above which some are merged", least=1
)
STATE_COMPACTION_AFTER_MERGE = _flag("state.compaction.afterMerge", True, "compact the state after merge splits")
STATE_RETENTION_VERSIONS = _count("state.retention.versions", 2, "old states kept within the log's retention", least=1)
STATE_RETENTION_HOURS = _count("state.retention.hours", 168, "hours that old states are kept")
STATE_GC_MIN_MANIFEST_AGE_HOURS = _count(
    "state.gc.minManifestAgeHours", 1, "hours before an unreferenced manifest may be deleted"
)
STATE_RETRY_MAX_ATTEMPTS = _count("state.retry.maxAttempts", 10, "how often a state write is tried", least=1)
STATE_RETRY_BASE_DELAY_MS = _count("state.retry.baseDelayMs", 100, "first wait between state writes")
STATE_RETRY_MAX_DELAY_MS = _count("state.retry.maxDelayMs", 5000, "longest wait between state writes")

# Purge
PURGE_DEFAULT_RETENTION_HOURS = _count(
    "purge.defaultRetentionHours", 168, "age, in hours, from which purge takes data files that no version needs"
)
PURGE_MIN_RETENTION_HOURS = _count(
    "purge.minRetentionHours", 24, "the safe age, in hours: purge of anything younger has to be forced"
)
PURGE_RETENTION_CHECK_ENABLED = _flag("purge.retentionCheckEnabled", True, "refuse ages below the safe one")
PURGE_ON_WRITE_ENABLED = _flag("purgeOnWrite.enabled", False, "purge after writes, in the background")
PURGE_ON_WRITE_ASYNC = _flag("purgeOnWrite.async.enabled", True, "false purges before the write returns")
PURGE_ON_WRITE_AFTER_WRITES = _count(
    "purgeOnWrite.triggerAfterWrites", 10, "versions between two purges on write; 0 is none", least=0
)
PURGE_ON_WRITE_AFTER_MERGE = _flag("purgeOnWrite.triggerAfterMerge", True, "purge after merge splits, too")
PURGE_ON_WRITE_SPLIT_RETENTION_HOURS = _count(
    "purgeOnWrite.splitRetentionHours", 168, "as purge.defaultRetentionHours, for purge on write"
)
PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS = _count(
    "purgeOnWrite.txLogRetentionHours", 720, "as purge.txLogRetentionHours, for purge on write"
)
READER_LEASE_HOURS = _count(
    "reader.leaseHours", 0, "hours for which an opened table keeps its version from cleanup and purge; 0 is not at all"
)

# Statistics
STATS_TRUNCATION_ENABLED = _flag("stats.truncation.enabled", True, "cut long strings in statistics")
STATS_TRUNCATION_MAX_LENGTH = _count("stats.truncation.maxLength", 32, "characters kept of a long string", least=1)
DATA_SKIPPING_NUM_INDEXED_COLS = _count("dataSkippingNumIndexedCols", 32, "columns that get statistics")

# Reading and writing
PROGRESS = _choice("progress", "auto", "when long work shows how far it is", "auto", "always", "never")
TIME_ZONE = _text("timeZone", "UTC", "zone of literals that name none")

# Streaming
STARTING_VERSION = _text("startingVersion", "", "version whose changes a stream reads first, or latest")
STARTING_TIMESTAMP = _text("startingTimestamp", "", "a stream first reads the changes of the first commit from then on")
MAX_FILES_PER_TRIGGER = _count("maxFilesPerTrigger", 1000, "files that a micro-batch of a stream reads", least=1)
MAX_BYTES_PER_TRIGGER = _count(
    "maxBytesPerTrigger", 0, "bytes of files that a micro-batch of a stream reads, one file at least; 0 is no bound"
)
SKIP_CHANGE_COMMITS = _flag(
    "skipChangeCommits", False, "a stream passes over commits that removed or rewrote rows, instead of stopping there"
)

# Splits
# Families: the rest of the key names a column, in any case.
INDEXING_TYPEMAP = "indexing.typemap."
INDEXING_TOKENIZER = "indexing.tokenizer."
INDEXING_RECORD_OPTION = "indexing.indexrecordoption."
INDEXING_TOKEN_LENGTH = "indexing.tokenlength."  # noqa: S105 - a token of text
INDEXING_FAST_FIELDS = _text(
    "indexing.fastfields", "", "columns, separated by commas, whose values the index holds for sorting and aggregation"
)
INDEXING_NON_FAST_FIELDS = _text(
    "indexing.nonfastfields", "", "columns, separated by commas, whose values the index does not hold"
)
SPLIT_TARGET_SIZE = _size(
    "split.targetSize",
    268_435_456,
    "bytes at which a split is closed and the next one begun",
    aliases=("targetSplitSize",),
)
SPLIT_MEMORY_BUDGET = _count(
    "split.memoryBudget", 1_073_741_824, "bytes of index memory at which a split is closed", least=1_048_576
)

OPTIMIZE_WRITE = _flag(
    "optimizeWrite",
    False,
    "writes of Spark: few files of a good size per partition, by a shuffle (`indextables.write`) or by merging small "
    "splits before the commit (`df.write`)",
)
OPTIMIZE_WRITE_MAX_MERGE_SIZE = _size(
    "optimizeWrite.maxMergeSize",
    536_870_912,
    "bytes of small splits that the commit of a write with `optimizeWrite` merges at most; the rest stays as written",
)

# Merge splits
MERGE_TARGET_SIZE = _size(
    "merge.targetSize", 1_073_741_824, "bytes that the sources of a merged split may have together"
)
MERGE_MAX_SOURCES = _count("merge.maxSourceSplitsPerMerge", 1000, "splits that are merged into one at most", least=2)
MERGE_GROUPS_PER_COMMIT = _count(
    "merge.groupsPerCommit", 0, "merged splits that are committed together; 0 is four times what runs at once"
)
MERGE_SKIP_COOLDOWN_HOURS = _count(
    "skippedFiles.cooldownDuration", 24, "hours for which a split that could not be merged is left alone"
)
MERGE_ON_WRITE_ENABLED = _flag(
    "mergeOnWrite.enabled", False, "merge small splits after a write that makes them too many"
)
MERGE_ON_WRITE_ASYNC = _flag(
    "mergeOnWrite.async.enabled", True, "merge on write in the background; false makes the write wait for it"
)
MERGE_ON_WRITE_MIN_SPLITS = _count(
    "mergeOnWrite.minSplits",
    32,
    "small splits of one partition in a row that make a merge on write worth its while",
    least=2,
)
MERGE_ON_WRITE_SMALL_SIZE = _size(
    "mergeOnWrite.smallSize", 67_108_864, "bytes below which a split is small for a merge on write"
)
MERGE_ON_WRITE_MAX_GROUPS = _count(
    "mergeOnWrite.maxGroups", 4, "merged splits that one merge on write makes at most", least=1
)
MERGE_LEASE_SECONDS = _count(
    "mergeOnWrite.leaseSeconds",
    1800,
    "seconds after which a merge on write that never ended stands in nobody's way",
    least=1,
)

# Search
CACHE_DIRECTORY = _text(
    "cache.directory", "", "folder of the index cache; empty is one of this user's own below the temporary folder"
)
SEARCH_DEFAULT_OPERATOR = _choice("search.defaultOperator", "or", "what nothing between two words means", "or", "and")
SEARCH_DEFAULT_FIELDS = _text(
    "search.defaultFields", "", "columns, separated by commas, for words without a field; empty is all text columns"
)
SEARCH_DRIVER_MAX_SPLITS = _count(
    "search.driver.maxSplits", 64, "a Spark search of a table with more splits runs in tasks; 0 always does"
)
SEARCH_DRIVER_MAX_BYTES = _count(
    "search.driver.maxBytes", 8_589_934_592, "a Spark search of a table with more bytes of splits runs in tasks"
)
CACHE_ROWS_SIZE = _count(
    "cache.rowsSize", 134_217_728, "bytes of memory for decoded rows that searches come back for; 0 keeps none", least=0
)
CACHE_MAX_SIZE = _count("cache.maxSize", 10_737_418_240, "bytes that the index cache may take", least=1_048_576)

# SQL without Spark
SQL_MEMORY_LIMIT = _count(
    "sql.memoryLimit", 4_294_967_296, "bytes of memory after which a SELECT spills to disk", least=16_777_216
)
