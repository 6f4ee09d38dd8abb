"""Every option, declared once: key, type, default, check and help.

A key works with or without the prefix `spark.indextables.` and in any case. The first of these that names it wins:
the call, the session, the table's configuration, the environment (`INDEXTABLES_CHECKPOINT_INTERVAL` for
`checkpoint.interval`), the default. Two spellings of one key with different values at the same place are refused.
Nothing outside this module spells an option's key: code asks `options[opt.CHECKPOINT_INTERVAL]`.

A value that cannot be read is refused where somebody sets it. Where it stands in the table's configuration already,
perhaps written by a newer library, it counts as not given, with a warning. An option whose default could then delete
more or check less declares the verbs that need it (`needed_by`): these refuse, reads and appends go on.
"""

from __future__ import annotations

from indextables.call_options import (
    CallOption,
    asked_flag,
    asked_names,
    asked_number,
    asked_predicate,
    asked_text,
    asked_version,
)
from indextables.option_values import (
    PREFIX,
    Option,
    Options,
    choice,
    count,
    flag,
    known_options,
    not_below,
    notes,
    ratio,
    size,
    text,
    zone,
)

__all__ = ["FAMILIES", "PREFIX", "CallOption", "Option", "Options", "known_options"]

# Options of one load or save of Spark. They are no options of a table: other doors take them as arguments.
_READS = "an argument of the verb that reads"
WHERE = asked_predicate(
    "where",
    "a SQL predicate: only rows for which it is true, and files that cannot hold any are not read",
    instead=_READS,
)
SEARCH = asked_text(
    "search", "a query: only rows that match, with a last column `_score`", instead="Table.search(query)"
)
COLUMNS = asked_names("columns", "the columns to read; all where it is not given", instead=_READS)
LIMIT = asked_number("limit", "at most this many rows; with `search` the best ones, best first", instead=_READS)
VERSION_AS_OF = asked_version(
    "versionAsOf", "the version to read", instead="open(path, version=...) or Table.at(version)"
)
TIMESTAMP_AS_OF = asked_text(
    "timestampAsOf",
    "read the version that was the newest at this time",
    instead="open(path, timestamp=...) or Table.at(timestamp=...)",
    kind="a time, or milliseconds since 1970",
)
_FEED = "arguments of `changes()`"
READ_CHANGE_FEED = asked_flag("readChangeFeed", "read what versions did, from `startingVersion` on", instead=_FEED)
ENDING_VERSION = asked_version("endingVersion", "the last version of a change feed", instead=_FEED)
ENDING_TIMESTAMP = asked_text("endingTimestamp", "a change feed ends with the last commit until then", instead=_FEED)
NET_CHANGES = asked_flag("netChanges", "fold a change feed into the first and last image of each row", instead=_FEED)
SKIP_UNCHANGED = asked_flag("skipUnchanged", "leave updates out of a change feed that changed nothing", instead=_FEED)

LOADING: tuple[CallOption[object], ...] = (
    *(WHERE, SEARCH, COLUMNS, LIMIT, VERSION_AS_OF, TIMESTAMP_AS_OF),
    *(READ_CHANGE_FEED, ENDING_VERSION, ENDING_TIMESTAMP, NET_CHANGES, SKIP_UNCHANGED),
)

PARTITION_BY = asked_names(
    "partitionBy",
    "the partition columns of a new table, or with `overwriteSchema` those that the table gets",
    instead="create(..., partition_by=...)",
)
REPLACE_WHERE = asked_predicate(
    "replaceWhere",
    "a predicate on partition columns: an overwrite replaces the partitions where it is true; new rows must satisfy it",
    instead="Table.overwrite(data, where)",
)
PARTITION_OVERWRITE_MODE = asked_text(
    "partitionOverwriteMode",
    "with `dynamic` an overwrite replaces the partitions that the new rows are in; where it is not given, Spark's own "
    "setting of that name counts",
    instead="Table.overwrite(data, partitions='dynamic')",
    kind="static or dynamic",
)
MERGE_SCHEMA = asked_flag(
    "mergeSchema",
    "the commit adds columns that only the DataFrame has, and widens types",
    instead="Table.append(data, merge_schema=True)",
)
OVERWRITE_SCHEMA = asked_flag(
    "overwriteSchema",
    "with overwrite of all rows: the schema of the DataFrame becomes the table's",
    instead="Table.overwrite(data, overwrite_schema=True)",
)
USER_METADATA = asked_text(
    "userMetadata", "a text that the history keeps with the commit", instead="Table.append(data, user_metadata=...)"
)
_TXN = "Table.append(data, txn=(application, batch))"
TXN_APP_ID = asked_text("txnAppId", "the application whose batch this is; needs `txnVersion`", instead=_TXN)
TXN_VERSION = asked_number(
    "txnVersion", "the number of the batch: one that the table holds already is not written again", instead=_TXN
)
SAVE_MODE = asked_text(
    "saveMode",
    "what an append does if there is a table already: raise, or leave it alone; `indextables.write` takes it as `mode`",
    instead="an argument of the verb",
    kind="error or ignore",
)
SAVING: tuple[CallOption[object], ...] = (
    PARTITION_BY,
    REPLACE_WHERE,
    PARTITION_OVERWRITE_MODE,
    MERGE_SCHEMA,
    OVERWRITE_SCHEMA,
    USER_METADATA,
    TXN_APP_ID,
    TXN_VERSION,
    SAVE_MODE,
)

# Verbs that refuse where an option that they need cannot be read.
_CLEANUP = ("cleanup of the log", "purge", "truncate")
_AUTOMATIC = ("cleanup of the log",)
_PURGE = ("purge",)
_PURGE_ON_WRITE = ("purge on write",)
_ROWS = ("overwrite", "drop partitions")

# Log
TRANSACTION_CACHE_ENABLED = flag("transaction.cache.enabled", True, "keep parsed log files in memory")
TRANSACTION_CACHE_EXPIRATION_SECONDS = count(
    "transaction.cache.expirationSeconds",
    300,
    "seconds for which a parsed log file in memory is used after it was read",
)
TRANSACTION_USE_OPTIMIZED = flag(
    "transaction.useOptimized", True, "false reads the log one file after the other; results are the same"
)
TRANSACTION_COMPRESSION_ENABLED = flag("transaction.compression.enabled", True, "write version files as gzip")
TRANSACTION_RETRY_MAX_ATTEMPTS = count(
    "transaction.retry.maxAttempts",
    10,
    "how often a commit that lost a race tries again; plain appends are limited only if this is set",
    least=1,
)
TRANSACTION_RETRY_BASE_DELAY_MS = count(
    "transaction.retry.baseDelayMs", 100, "milliseconds of the first wait after a fault"
)
TRANSACTION_RETRY_MAX_DELAY_MS = count(
    "transaction.retry.maxDelayMs", 5000, "milliseconds of the longest wait after a fault"
)
TRANSACTION_DISTRIBUTED_ENABLED = flag(
    "transaction.distributed.enabled", True, "let Spark's tasks read long tails of logs in object stores"
)
TRANSACTION_DISTRIBUTED_MIN_FILES = count(
    "transaction.distributed.minFiles", 10, "number of version files from which on Spark's tasks read a tail", least=1
)
TRANSACTION_DISTRIBUTED_PARALLELISM = count(
    "transaction.distributed.parallelism",
    0,
    "number of tasks that read a tail; 0 is as many as can run at the same time",
)
TRANSACTION_DISTRIBUTED_ADAPTIVE = flag(
    "transaction.distributed.adaptiveParallelism", True, "use fewer tasks for fewer version files"
)
COMMIT_TOKEN_WINDOW = count("commit.tokenWindow", 8192, "how many commit tokens a checkpoint carries", least=1)
COMMIT_MAX_CLOCK_SKEW_MS = count(
    "commit.maxClockSkewMs",
    300_000,
    "milliseconds by which the clocks of this machine and of the store may differ",
    needed_by=_CLEANUP,
)
COMMIT_USER = text(
    "commit.user", "", "the user that commits name; empty is the user of the process, in Spark the one of Spark"
)
ISOLATION_LEVEL = choice(
    "isolationLevel",
    "writeserializable",
    "which concurrent commits conflict",
    "writeserializable",
    "serializable",
    needed_by=_ROWS,
)
LOG_STOP_AT_GAP = flag(
    "log.stopAtGap", False, "read a log that lacks a version file up to that gap, with a warning, instead of raising"
)
MAX_STALENESS_MS = count(
    "maxStaleness",
    0,
    "milliseconds for which a read uses the newest version that was found before, without looking again",
)

# Storage
STORAGE_FSYNC = flag("storage.fsync", True, "make local files survive a power loss before a commit is reported")
STORAGE_TIMEOUT_SECONDS = count("storage.timeoutSeconds", 30, "seconds that one call of the store may take", least=1)
STORAGE_RETRIES = count("storage.retries", 4, "how often a failed store call is repeated")
STORAGE_ENDPOINT = text("storage.endpoint", "", "URL of the store's service, where it is not the cloud's own")
STORAGE_REGION = text("storage.region", "", "region of the bucket")
STORAGE_PATH_STYLE = flag("storage.pathStyle", True, "name the S3 bucket in the path instead of the host")
STORAGE_ANONYMOUS = flag("storage.anonymous", False, "do not sign requests (public buckets)")
STORAGE_PROXY = text("storage.proxyUrl", "", "HTTP proxy for requests to the store")
STORAGE_ACCESS_KEY = text("storage.accessKey", "", "S3 access key id; needs storage.secretKey")
STORAGE_SECRET_KEY = text("storage.secretKey", "", "S3 secret access key; needs storage.accessKey")
STORAGE_SESSION_TOKEN = text("storage.sessionToken", "", "S3 session token of temporary credentials")
STORAGE_AZURE_ACCOUNT = text("storage.azure.account", "", "Azure storage account, where the URL names none")
STORAGE_AZURE_ACCOUNT_KEY = text("storage.azure.accountKey", "", "Azure account key")
STORAGE_AZURE_SAS_TOKEN = text("storage.azure.sasToken", "", "Azure shared access signature")
STORAGE_AZURE_BEARER_TOKEN = text("storage.azure.bearerToken", "", "Azure OAuth token")
STORAGE_AZURE_TENANT_ID = text("storage.azure.tenantId", "", "Azure tenant of a service principal")
STORAGE_AZURE_CLIENT_ID = text("storage.azure.clientId", "", "Azure service principal")
STORAGE_AZURE_CLIENT_SECRET = text("storage.azure.clientSecret", "", "secret of the Azure service principal")
STORAGE_GCS_SERVICE_ACCOUNT_FILE = text("storage.gcs.serviceAccountFile", "", "path of a Google service account key")
STORAGE_GCS_SERVICE_ACCOUNT_KEY = text("storage.gcs.serviceAccountKey", "", "a Google service account key as JSON")
STORAGE_GCS_BEARER_TOKEN = text("storage.gcs.bearerToken", "", "Google OAuth token")

# Checkpoints and state
CHECKPOINT_ENABLED = flag("checkpoint.enabled", True, "write checkpoints automatically")
CHECKPOINT_INTERVAL = count(
    "checkpoint.interval", 10, "commits between checkpoints", least=1, aliases=("delta.checkpointInterval",)
)
CHECKPOINT_ASYNC = flag("checkpoint.async", False, "write checkpoints in the background")
CHECKPOINT_PARALLELISM = count("checkpoint.parallelism", 8, "number of threads that read version files", least=1)
CHECKPOINT_READ_TIMEOUT_SECONDS = count(
    "checkpoint.read.timeoutSeconds", 30, "seconds without progress after which a parallel read fails", least=1
)
CHECKPOINT_RETENTION = count(
    "checkpoint.retention", 0, "number of newest version files that cleanup always keeps", needed_by=_CLEANUP
)
CHECKPOINT_COMPRESSION = choice(
    "checkpoint.compression", "snappy", "codec of Parquet checkpoints", "snappy", "zstd", "gzip", "lz4", "none"
)
CHECKPOINT_MAX_FILE_SIZE = size(
    "checkpoint.maxFileSize", 134_217_728, "bytes above which a checkpoint is written in parts"
)
CHECKPOINT_RETENTION_DURATION = count(
    "checkpointRetention.duration",
    7_200_000,
    "milliseconds that a checkpoint is kept after a newer one",
    needed_by=_CLEANUP,
)
LOG_RETENTION_DURATION = count(
    "logRetention.duration", 2_592_000_000, "milliseconds that version files are kept", needed_by=_CLEANUP
)
MIRROR_DELTA = flag("mirror.delta", False, "mirror each version as a version of Delta; MIRROR INDEXTABLES sets it")
MIRROR_CHECKPOINT_INTERVAL = count(
    "mirror.checkpointInterval", 100, "versions between checkpoints of the Delta mirror", least=1
)
CLEANUP_ENABLED = flag("cleanup.enabled", True, "clean up old log files after a checkpoint", needed_by=_AUTOMATIC)
CLEANUP_FAILURE_POLICY = choice(
    "cleanup.failurePolicy", "continue", "what a failed cleanup does", "continue", "fail", needed_by=_AUTOMATIC
)
CLEANUP_DRY_RUN = flag("cleanup.dryRun", False, "list what cleanup would delete, delete nothing", needed_by=_AUTOMATIC)
PURGE_TX_LOG_RETENTION_HOURS = count(
    "purge.txLogRetentionHours",
    720,
    "hours that version files are kept; if this is set, logRetention.duration does not count",
    needed_by=_CLEANUP,
)
STATE_FORMAT = choice("state.format", "avro", "format of new checkpoints", "avro", "parquet", "json")
STATE_COMPRESSION = choice("state.compression", "zstd", "codec of Avro manifests", "zstd", "snappy", "deflate", "none")
STATE_COMPRESSION_LEVEL = count("state.compressionLevel", 3, "zstd level of Avro manifests", least=1, most=22)
STATE_READ_PARALLELISM = count("state.read.parallelism", 8, "number of threads that read manifests", least=1)
STATE_FILES_IN_MEMORY = count("state.filesInMemory", 1_000_000, "files up to which all entries stay in memory")
STATE_ENTRIES_PER_MANIFEST = count("state.entriesPerManifest", 50_000, "entries in a full manifest", least=1)
STATE_COMPACTION_TOMBSTONE_THRESHOLD = ratio(
    "state.compaction.tombstoneThreshold",
    0.10,
    "share of tombstones, from 0 to 1, above which a checkpoint is compacted",
)
STATE_COMPACTION_MAX_MANIFESTS = count(
    "state.compaction.maxManifests", 20, "number of small manifests above which some are merged", least=1
)
STATE_COMPACTION_AFTER_MERGE = flag("state.compaction.afterMerge", True, "compact the checkpoint after merge splits")
STATE_RETENTION_VERSIONS = count(
    "state.retention.versions",
    2,
    "number of old checkpoints kept within the log's retention",
    least=1,
    needed_by=_CLEANUP,
)
STATE_RETENTION_HOURS = count("state.retention.hours", 168, "hours that old checkpoints are kept", needed_by=_CLEANUP)
STATE_GC_MIN_MANIFEST_AGE_HOURS = count(
    "state.gc.minManifestAgeHours", 1, "hours before an unreferenced manifest may be deleted", needed_by=_CLEANUP
)
STATE_RETRY_MAX_ATTEMPTS = count("state.retry.maxAttempts", 10, "how often writing a checkpoint is tried", least=1)
STATE_RETRY_BASE_DELAY_MS = count(
    "state.retry.baseDelayMs", 100, "milliseconds of the first wait before a checkpoint is tried again"
)
STATE_RETRY_MAX_DELAY_MS = count(
    "state.retry.maxDelayMs", 5000, "milliseconds of the longest wait before a checkpoint is tried again"
)

# Purge
PURGE_DEFAULT_RETENTION_HOURS = count(
    "purge.defaultRetentionHours",
    168,
    "hours for which purge keeps data files that no version needs",
    needed_by=_PURGE,
)
PURGE_MIN_RETENTION_HOURS = count(
    "purge.minRetentionHours",
    24,
    "the safe age in hours: purge deletes younger data files only with `force`",
    needed_by=_PURGE,
)
PURGE_RETENTION_CHECK_ENABLED = flag(
    "purge.retentionCheckEnabled", True, "refuse ages below `purge.minRetentionHours` without `force`"
)
PURGE_ON_WRITE_ENABLED = flag("purgeOnWrite.enabled", False, "purge after writes, in the background")
PURGE_ON_WRITE_ASYNC = flag("purgeOnWrite.async.enabled", True, "false purges before the write returns")
PURGE_ON_WRITE_AFTER_WRITES = count(
    "purgeOnWrite.triggerAfterWrites",
    10,
    "number of versions between two purges on write; 0 never purges by this count",
    least=0,
    needed_by=_PURGE_ON_WRITE,
)
PURGE_ON_WRITE_AFTER_MERGE = flag(
    "purgeOnWrite.triggerAfterMerge", True, "purge after merge splits, too", needed_by=_PURGE_ON_WRITE
)
PURGE_ON_WRITE_SPLIT_RETENTION_HOURS = count(
    "purgeOnWrite.splitRetentionHours",
    168,
    "as purge.defaultRetentionHours, for purge on write",
    needed_by=_PURGE_ON_WRITE,
)
PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS = count(
    "purgeOnWrite.txLogRetentionHours",
    720,
    "as purge.txLogRetentionHours, for purge on write",
    needed_by=_PURGE_ON_WRITE,
)
not_below(PURGE_ON_WRITE_SPLIT_RETENTION_HOURS, PURGE_MIN_RETENTION_HOURS, PURGE_RETENTION_CHECK_ENABLED)
not_below(PURGE_ON_WRITE_TX_LOG_RETENTION_HOURS, PURGE_MIN_RETENTION_HOURS, PURGE_RETENTION_CHECK_ENABLED)
READER_LEASE_HOURS = count(
    "reader.leaseHours", 0, "hours for which an opened table keeps its version from cleanup and purge; 0 does not"
)

# Statistics
STATS_TRUNCATION_ENABLED = flag("stats.truncation.enabled", True, "cut long strings in statistics")
STATS_TRUNCATION_MAX_LENGTH = count("stats.truncation.maxLength", 32, "characters kept of a long string", least=1)
DATA_SKIPPING_NUM_INDEXED_COLS = count("dataSkippingNumIndexedCols", 32, "number of columns that get statistics")

# Reading and writing
PROGRESS = choice("progress", "auto", "when long work shows a progress bar", "auto", "always", "never")
TIME_ZONE = zone("timeZone", "UTC", "time zone of times in predicates that name none")

# Streaming
STARTING_VERSION = text("startingVersion", "", "version whose changes a stream reads first, or latest")
STARTING_TIMESTAMP = text("startingTimestamp", "", "a stream starts with the first commit at or after this time")
MAX_FILES_PER_TRIGGER = count(
    "maxFilesPerTrigger", 1000, "number of files that a micro-batch of a stream reads at most", least=1
)
MAX_BYTES_PER_TRIGGER = count(
    "maxBytesPerTrigger",
    0,
    "bytes of files that a micro-batch of a stream reads at most, one file at least; 0 is no limit",
)
SKIP_CHANGE_COMMITS = flag(
    "skipChangeCommits", False, "a stream passes over commits that removed or rewrote rows, instead of stopping there"
)

# Splits
# Families: the rest of the key names a column, in any case.
INDEXING_TYPEMAP = "indexing.typemap."
INDEXING_TOKENIZER = "indexing.tokenizer."
INDEXING_RECORD_OPTION = "indexing.indexrecordoption."
INDEXING_TOKEN_LENGTH = "indexing.tokenlength."  # noqa: S105 - a token of text
FAMILIES = (INDEXING_TYPEMAP, INDEXING_TOKENIZER, INDEXING_RECORD_OPTION, INDEXING_TOKEN_LENGTH)
WRITE_TAGS = notes("write.tags", "tags of every file that is written: `source=job 7, reason=backfill`")
INDEXING_FAST_FIELDS = text(
    "indexing.fastfields", "", "columns, separated by commas, whose values the index holds for sorting and aggregation"
)
INDEXING_NON_FAST_FIELDS = text("indexing.nonfastfields", "", "columns, separated by commas, without such values")
INDEXING_PERSONAL = text(
    "indexing.personal", "", "columns, separated by commas, of which no value stands outside of the splits"
)
SPLIT_TARGET_SIZE = size(
    "split.targetSize",
    268_435_456,
    "bytes at which a split is closed and the next one begun",
    aliases=("targetSplitSize",),
)
SPLIT_MEMORY_BUDGET = count(
    "split.memoryBudget", 1_073_741_824, "bytes of index memory at which a split is closed", least=1_048_576
)
SPLIT_MEMORY_SCRATCH = flag(
    "split.memoryScratch", True, "build small splits in a memory file system (/dev/shm), where one has room"
)

OPTIMIZE_WRITE = flag(
    "optimizeWrite",
    False,
    "writes of Spark: few files of a good size per partition, by a shuffle (`indextables.write`) or by merging small "
    "splits before the commit (`df.write`)",
)
OPTIMIZE_WRITE_MAX_MERGE_SIZE = size(
    "optimizeWrite.maxMergeSize",
    536_870_912,
    "bytes of small splits that a write with `optimizeWrite` merges at most; the rest stays as written",
)

# Merge splits
MERGE_TARGET_SIZE = size(
    "merge.targetSize", 1_073_741_824, "bytes that the sources of a merged split may have together"
)
MERGE_MAX_SOURCES = count(
    "merge.maxSourceSplitsPerMerge", 1000, "number of splits that are merged into one at most", least=2
)
MERGE_GROUPS_PER_COMMIT = count(
    "merge.groupsPerCommit",
    0,
    "number of merged splits that are committed together; 0 is four times as many as are merged at once",
)
MERGE_MAX_DELETED_ROWS_RATIO = ratio(
    "merge.maxDeletedRowsRatio",
    0.05,
    "share of deleted rows above which merge splits writes a split anew without them, also a large one, also alone",
)
MERGE_SKIP_COOLDOWN_HOURS = count(
    "skippedFiles.cooldownDuration", 24, "hours for which a split that could not be merged is left alone"
)
MERGE_ON_WRITE_ENABLED = flag(
    "mergeOnWrite.enabled",
    True,
    "merge small splits after writes that make them too many; writes of Spark that are no streams do it only where "
    "it is set",
)
MERGE_ON_WRITE_ASYNC = flag(
    "mergeOnWrite.async.enabled", True, "merge on write in the background; false makes the write wait for it"
)
MERGE_ON_WRITE_MIN_SPLITS = count(
    "mergeOnWrite.minSplits",
    12,
    "small splits of about one size, in a row and of one partition, that a merge on write makes one of; the next size "
    "is so many times as large",
    least=2,
)
MERGE_ON_WRITE_SMALL_SIZE = size(
    "mergeOnWrite.smallSize", 67_108_864, "bytes below which a split is small for a merge on write"
)
MERGE_ON_WRITE_MAX_GROUPS = count(
    "mergeOnWrite.maxGroups", 4, "merged splits that a merge on write commits together at most", least=1
)
MERGE_ON_WRITE_MAX_DELETED_ROWS_RATIO = ratio(
    "mergeOnWrite.maxDeletedRowsRatio",
    0.3,
    "share of deleted rows above which a merge on write writes a split anew without them",
)
MERGE_LEASE_SECONDS = count(
    "mergeOnWrite.leaseSeconds",
    1800,
    "seconds after which others may merge on write although one has not ended, since its process may be gone",
    least=1,
)

# Search
CACHE_DIRECTORY = text(
    "cache.directory",
    "",
    "folder of the index cache; empty is a folder of this user below the temporary folder",
)
SEARCH_DEFAULT_OPERATOR = choice(
    "search.defaultOperator", "or", "the operator between two words that have none", "or", "and"
)
SEARCH_DEFAULT_FIELDS = text(
    "search.defaultFields", "", "columns, separated by commas, for words without a field; empty is all text columns"
)
SEARCH_DRIVER_MAX_SPLITS = count(
    "search.driver.maxSplits",
    64,
    "a Spark search of a table with more splits runs in tasks, others in the driver; 0 always uses tasks",
)
SEARCH_DRIVER_MAX_BYTES = count(
    "search.driver.maxBytes", 8_589_934_592, "a Spark search of a table with splits of more bytes runs in tasks"
)
SEARCH_DRIVER_MAX_ROWS = count(
    "search.driver.maxRows",
    20_000,
    "a Spark search that finds more rows leaves reading them to tasks; 0 always does",
)
CACHE_ROWS_SIZE = count(
    "cache.rowsSize",
    134_217_728,
    "bytes of memory in which searches keep decoded rows for the next search; 0 keeps none",
    least=0,
)
CACHE_MAX_SIZE = count("cache.maxSize", 10_737_418_240, "bytes of disk that the index cache may take", least=1_048_576)

# SQL without Spark
SQL_MEMORY_LIMIT = count(
    "sql.memoryLimit", 4_294_967_296, "bytes of memory after which a SELECT spills to disk", least=16_777_216
)
