"""Sources of unknown kind: the fallback, which knows nothing and so never skips a flow."""

from __future__ import annotations

from framework.foundation.storage_port import Storage
from framework.sources.port import (
    UNKNOWN_LAG,
    Gap,
    Lag,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
)


class OpaqueSource:
    """Any source without a kind of its own: rate, sockets, user-defined data sources."""

    kind = "opaque"
    starts: tuple[str, ...] = ()

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize every relation; ask this kind last."""
        return SourceReference(kind=self.kind, shape=SourceShape.STREAM, location=relation.format)

    def owns(self, offset: str) -> bool:
        """Own every offset; ask this kind last."""
        del offset
        return True

    def change_token(self, storage: Storage, source: SourceReference, previous: str | None) -> str | None:
        """Unknown."""
        del storage, source, previous
        return None

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Unknown."""
        del position
        return None

    def identity(self, storage: Storage, source: SourceReference) -> str | None:
        """Unknown."""
        del storage, source
        return None

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Unknown."""
        del position, now
        return UNKNOWN_LAG

    def gaps(self, position: SourcePosition) -> tuple[Gap, ...]:
        """None are known."""
        del position
        return ()
