"""Private parts of Delta; tables of a version that was not tested take the public way (`can_open`)."""

from __future__ import annotations

from framework.engine.registry.private_part import PrivatePart, Product

_DELTA = "org.apache.spark.sql.delta"
_COMMANDS = f"{_DELTA}.commands"
_SQL = "Delta's own commands: `INSERT`, `MERGE`, `createOrReplace`, `RESTORE`"


def _part(module: str, owner: str, *members: str, public_way: str = _SQL) -> PrivatePart:
    return PrivatePart(
        module=module if "." in module else f"delta.{module}",
        owner=owner,
        members=members,
        product=Product.DELTA,
        public_way=public_way,
    )


DELTA_PARTS = (
    _part("table_version", "io.delta.package", "VERSION(): String"),
    _part(
        "table_version",
        f"{_DELTA}.DeltaLog",
        "forTable(SparkSession, String)",
        "invalidateCache(SparkSession, Path)",
        "startTransaction()",
        "dataPath()",
        "clock()",
        "createDataFrame(Snapshot, Seq, boolean, Option)",
        "newDeltaHadoopConf()",
        "update(…)",
        "getSnapshotAt(…)",
    ),
    _part(
        "table_version",
        f"{_DELTA}.Snapshot",
        "version()",
        "metadata()",
        "protocol()",
        "checksumOpt()",
        "logSegment()",
        "allFiles()",
        "tombstones()",
    ),
    _part(
        "table_version",
        f"{_DELTA}.OptimisticTransaction",
        "snapshot()",
        "metadata()",
        "commit(Seq, Operation)",
        "writeFiles(Dataset)",
        "txnVersion(String)",
        "readTxn()",
        "registerSQLMetrics(SparkSession, Map)",
        "filterFiles(Seq, boolean)",
        "readWholeTable()",
        "trackFilesRead(Seq)",
        "updateMetadata(Metadata, boolean)",
        "updateMetadataForNewTableInReplace(Metadata)",
        "updateMetadataForTableOverwrite(Metadata)",
    ),
    _part(
        "table_version",
        f"{_DELTA}.VersionChecksum",
        "tableSizeBytes()",
        "numFiles()",
        "setTransactions()",
        "domainMetadata()",
        "allFiles()",
    ),
    _part("table_version", f"{_DELTA}.actions.SetTransaction", "(String, long, Option)", "appId()"),
    _part(
        "table_version",
        f"{_DELTA}.actions.AddFile",
        "removeWithTimestamp(long, boolean)",
        "removeRows(DeletionVectorDescriptor, boolean, boolean)",
        "numPhysicalRecords()",
        "deletionVector()",
    ),
    _part(
        "table_version",
        f"{_DELTA}.actions.Metadata",
        "(…)",
        "copy(…)",
        "schemaString()",
        "partitionColumns()",
        "configuration()",
        "createdTime()",
    ),
    _part("table_version", f"{_DELTA}.actions.Action", "fromJson(String)"),
    _part("table_version", f"{_DELTA}.DeltaOptions", "(Map, SQLConf)"),
    _part("table_version", f"{_DELTA}.DeltaOperations$Write", "(SaveMode, Option, …)"),
    _part("table_version", f"{_DELTA}.DeltaOperations$Merge", "(Option, …)"),
    _part(
        "table_version",
        f"{_COMMANDS}.WriteIntoDelta",
        "(DeltaLog, SaveMode, DeltaOptions, …)",
        "writeAndReturnCommitData(…)",
    ),
    _part("table_version", f"{_DELTA}.util.DeltaFileOperations", "absolutePath(String, String)"),
    _part("table_version", f"{_DELTA}.util.JsonUtils", "mapper()"),
    _part("table_replacement", f"{_DELTA}.DeltaOperations$ReplaceTable", "(Metadata, boolean, …)"),
    _part("stored_version", f"{_DELTA}.DeltaOperations$Restore", "(Option, Option)"),
    _part("appends", f"{_DELTA}.DeltaOperations$StreamingUpdate", "(OutputMode, String, long, Option)"),
    _part(
        "appends",
        f"{_DELTA}.sources.DeltaSink",
        "(SQLContext, Path, Seq, OutputMode, DeltaOptions, Option)",
        "addBatch(long, Dataset)",
    ),
    _part(
        "deletion_vectors",
        f"{_COMMANDS}.DeletionVectorBitmapGenerator",
        "buildRowIndexSetsForFilesMatchingCondition(…)",
    ),
    _part("deletion_vectors", f"{_COMMANDS}.DeletionVectorWriter", "createMapperToStoreDeletionVectors(…)"),
    _part("deletion_vectors", f"{_COMMANDS}.DeletionVectorData", "(String, Option, byte[], long)"),
    _part(
        "deletion_vectors",
        f"{_COMMANDS}.DMLWithDeletionVectorsHelper",
        "generateCandidateFileMap(Path, Seq)",
        "findFilesWithMatchingRows(…)",
        "processUnmodifiedData(…)",
    ),
    _part(
        "deletion_vectors",
        f"{_DELTA}.deletionvectors.RoaringBitmapArray",
        "apply(Seq)",
        "serializeAsByteArray(…)",
        "cardinality()",
    ),
    _part("deletion_vectors", f"{_DELTA}.deletionvectors.RoaringBitmapArrayFormat", "Portable()"),
    _part("deletion_vectors", f"{_DELTA}.util.Utils", "getRandomPrefixLength(Metadata)"),
    _part(
        "table_overwrite",
        f"{_DELTA}.skipping.clustering.ClusteredTableUtils",
        "isSupported(Protocol)",
        "getClusteringColumnsOptional(Snapshot)",
        "getClusteringDomainMetadataForAlterTableClusterBy(Seq, OptimisticTransaction)",
    ),
    _part("table_overwrite", f"{_DELTA}.skipping.clustering.ClusteringColumnInfo", "extractLogicalNames(Snapshot)"),
    _part(
        "definitions",
        f"{_DELTA}.TableFeature$",
        "featureNameToFeature(String)",
        public_way="the creation of the table, which fails",
    ),
    _part(
        "definitions",
        f"{_DELTA}.DeltaConfigs$",
        "validateConfigurations(Map)",
        public_way="the creation of the table, which fails",
    ),
    _part(
        "definitions",
        f"{_DELTA}.GeneratedColumn$",
        "validateGeneratedColumns(SparkSession, StructType)",
        public_way="the creation of the table, which fails",
    ),
    _part("plans.relations", f"{_DELTA}.files.TahoeFileIndex", "deltaLog()", "version()", "metadata()", public_way=""),
    _part("plans.relations", f"{_COMMANDS}.cdc.CDCReader$DeltaCDFRelation", "snapshotWithSchemaMode()", public_way=""),
)
