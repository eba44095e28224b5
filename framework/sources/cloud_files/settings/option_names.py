"""Names of options: `cloudFiles` options, options without effect, and options of Spark's readers by format.

A test compares the names of each format with those that Spark's own classes list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from framework.foundation.nearest import nearest_name

PREFIX = "cloudfiles."

OPTIONS = (
    "format",
    "schemaLocation",
    "inferColumnTypes",
    "schemaHints",
    "schemaEvolutionMode",
    "rescuedDataColumn",
    "includeExistingFiles",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "allowOverwrites",
    "partitionColumns",
    "useIncrementalListing",
    "cleanSource",
    "cleanSource.retentionDuration",
    "cleanSource.moveDestination",
    "validateOptions",
)
"""Options with the prefix."""

_UNPREFIXED = (
    "path",
    "modifiedAfter",
    "modifiedBefore",
    "pathGlobFilter",
    "fileNamePattern",
    "recursiveFileLookup",
    "rescuedDataColumn",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "readerCaseSensitive",
    "parserCaseSensitive",
    "skipRows",
)
OWN = frozenset(name.lower() for name in _UNPREFIXED)
"""Options of ours that have no prefix, in lower case; `fileNamePattern` is one of `read_files`."""

_FINDING = "new files are found by listing the folder, which finds the same files"
_CLOUD = "it is an account of a service that announces files; the folder is listed with the settings of the session"
_WITHOUT_EFFECT = {
    **dict.fromkeys(
        (
            "useNotifications",
            "useManagedFileEvents",
            "listOnStart",
            "fetchParallelism",
            "resourceTag",
            "region",
            "restrictNotificationSetupToSameAWSAccountId",
            "queueUrl",
            "queueName",
            "subscription",
            "resourceGroup",
        ),
        _FINDING,
    ),
    "backfillInterval": "each listing is complete, so that no file is missed",
    "useIncrementalListing": "each listing is complete, so that no file is missed",
    **dict.fromkeys(
        (
            "connectionString",
            "subscriptionId",
            "tenantId",
            "clientId",
            "clientSecret",
            "projectId",
            "client",
            "clientEmail",
            "privateKey",
            "privateKeyId",
            "awsAccessKey",
            "awsSecretKey",
            "roleArn",
            "roleExternalId",
            "roleSessionName",
            "stsEndpoint",
        ),
        _CLOUD,
    ),
    "databricks.serviceCredential": _CLOUD,
}
NO_EFFECT = {name.lower(): why for name, why in _WITHOUT_EFFECT.items()}
"""Options of Auto Loader that change no row here, in lower case, and why."""

_REFUSED = {
    "maxFileAge": "a file that was read is never forgotten",
    "latestFirst": "files are read in the order in which they were found",
    "fileNameOnly": "files are identified by their full paths",
    "badRecordsPath": "set `rescuedDataColumn`, which keeps bad records",
    "useStrictGlobber": "a star in the path never matches a slash",
    "pathRewrites": "files are read at the paths where they are listed",
}
REFUSED = {name.lower(): why for name, why in _REFUSED.items()}
"""Options that would change the result rows, in lower case, and why they can't be honoured."""

_OF_FILES = ("ignoreMissingFiles", "ignoreCorruptFiles")
_OF_VALUES = (
    "mode",
    "columnNameOfCorruptRecord",
    "encoding",
    "charset",
    "multiLine",
    "samplingRatio",
    "compression",
    "locale",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "timeFormat",
    "timeZone",
    "singleVariantColumn",
)
OF_FORMATS: dict[str, tuple[str, ...]] = {
    "csv": (
        *_OF_VALUES,
        "sep",
        "delimiter",
        "quote",
        "escape",
        "comment",
        "header",
        "lineSep",
        "nullValue",
        "nanValue",
        "positiveInf",
        "negativeInf",
        "emptyValue",
        "maxColumns",
        "maxCharsPerColumn",
        "charToEscapeQuoteEscaping",
        "escapeQuotes",
        "quoteAll",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "unescapedQuoteHandling",
        "enforceSchema",
        "inferSchema",
        "preferDate",
        "inputBufferSize",
        "columnPruning",
        "codec",
        "extension",
        "enableDateTimeParsingFallback",
    ),
    "json": (
        *_OF_VALUES,
        "lineSep",
        "allowBackslashEscapingAnyCharacter",
        "allowComments",
        "allowNonNumericNumbers",
        "allowNumericLeadingZeros",
        "allowSingleQuotes",
        "allowUnquotedControlChars",
        "allowUnquotedFieldNames",
        "dropFieldIfAllNull",
        "ignoreNullFields",
        "inferTimestamp",
        "prefersDecimal",
        "primitivesAsString",
        "pretty",
        "sortKeys",
        "useUnsafeRow",
        "writeNonAsciiCharacterAsCodePoint",
        "enableDateTimeParsingFallback",
    ),
    "xml": (
        *_OF_VALUES,
        "rowTag",
        "rootTag",
        "attributePrefix",
        "valueTag",
        "nullValue",
        "excludeAttribute",
        "ignoreNamespace",
        "ignoreSurroundingSpaces",
        "rowValidationXSDPath",
        "arrayElementName",
        "declaration",
        "indent",
        "validateName",
        "wildcardColName",
        "useLegacyXMLParser",
        "inferSchema",
        "preferDate",
        "prefersDecimal",
    ),
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode", "compression", "parquet.compression"),
    "orc": ("mergeSchema", "compression", "orc.compress"),
    "avro": (
        "avroSchema",
        "avroSchemaUrl",
        "datetimeRebaseMode",
        "ignoreExtension",
        "mode",
        "compression",
        "recordName",
        "recordNamespace",
        "positionalFieldMatching",
        "recursiveFieldMaxDepth",
        "enableStableIdentifiersForUnionType",
        "stableIdentifierPrefixForUnionType",
    ),
    "text": ("wholetext", "lineSep", "encoding", "compression"),
    "binaryFile": (),
}
"""The options of Spark's readers and writers by format."""

_OF_HADOOP = ("fs.", "dfs.", "hadoop.", "io.", "ipc.", "mapred", "parquet.", "orc.", "avro.", "s3service.")
"""Spark passes reader options to Hadoop as settings, such as file system settings."""


def plain_options(kind: str) -> frozenset[str]:
    """Return the options of a format that are passed to Spark's reader, in lower case."""
    return frozenset(name.lower() for name in (*OF_FORMATS[kind], *_OF_FILES))


def other_formats(name: str) -> list[str]:
    """Return the formats that have an option, in lower case."""
    return [kind for kind in OF_FORMATS if name in plain_options(kind)]


def is_of_hadoop(name: str) -> bool:
    """Return whether an option, in lower case, is a setting of Hadoop."""
    return name.startswith(_OF_HADOOP)


def reason_of(name: str, reasons: Mapping[str, str]) -> str | None:
    """Return why an option (lower case, no prefix) is without effect or refused; None if it has no listed reason."""
    return reasons.get("resourcetag" if name.startswith("resourcetag.") else name)


def hint_of_prefixed(name: str) -> str:
    """Return a hint for an unknown option with the prefix: a similar option, or an option of a format."""
    if name.lower() == "inferschema":
        return " Did you mean `cloudFiles.inferColumnTypes`?"
    if other_formats(name.lower()):
        return f" An option of the format has no prefix: `{name}`."
    near = _nearest(name, (*OPTIONS, *_WITHOUT_EFFECT))
    return f" Did you mean `cloudFiles.{near}`?" if near else ""


def hint_of_plain(name: str, kind: str) -> str:
    """Return a hint for an unknown option without the prefix, as a part of its error message."""
    prefix, _, rest = name.rpartition(".")
    near = _nearest(rest if _nearest(prefix, ("cloudFiles",)) else name, (*OPTIONS, *_WITHOUT_EFFECT))
    plain = _nearest(name, (*OF_FORMATS[kind], *_OF_FILES, *_UNPREFIXED))
    if plain or near:
        return f" Did you mean `{plain}`?" if plain else f" Did you mean `cloudFiles.{near}`?"
    return ""


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar name, in any case."""
    spelled = {each.lower(): each for each in known}
    return spelled.get(nearest_name(name.lower(), spelled) or "")
