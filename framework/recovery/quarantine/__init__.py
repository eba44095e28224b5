"""Operations on the quarantine of a pipeline: list, show, replay and drop."""
