"""Sources without a kind of their own."""

from __future__ import annotations

from framework.sources.port import SourceReference, SourceShape, StreamingRelation, UnseenSource


class OpaqueSource(UnseenSource):
    """Any source without a kind of its own: rate, sockets, user-defined data sources."""

    kind = "opaque"
    starts: tuple[str, ...] = ()

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize every relation; ask this kind last."""
        return SourceReference(
            kind=self.kind, shape=SourceShape.STREAM, location=relation.format, selects=relation.path or ""
        )

    def owns(self, offset: str) -> bool:
        """Own every offset; ask this kind last."""
        del offset
        return True
