"""Conditions of the inputs of sandboxes."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "TEST_INPUT_NOT_GIVEN": Condition(
        "The {what} {source} is read, and the test does not give it.{hint}",
        "Give its rows with given({source!r}, …), or let the real one through with given({source!r}, real=True).",
    ),
    "TEST_INPUT_UNUSED": Condition(
        "The test gives {source}, and no flow of the update reads it.{hint}",
        "Correct the name: write it as the code does, or the end of it, or remove it.",
    ),
    "TEST_INPUT_AMBIGUOUS": Condition(
        "The test gives {source}, and the code reads two inputs with this name: {first} and {second}.",
        "Give each of them with a longer name.",
    ),
    "TEST_INPUT_GIVEN_TWICE": Condition(
        "The test gives {source} twice.",
        "Put all rows into one call of given(…), or add a second batch with arrives({source!r}, …).",
    ),
    "TEST_INPUT_REAL": Condition(
        "The test lets the real {source} through, so it can't add rows to it.",
        "Give its rows in place of real=True.",
    ),
    "TEST_DATASET_GIVEN": Condition(
        "The test gives the rows of {dataset}, so its flows do not run.",
        "Update a dataset that reads it, or give what its flows read instead.",
    ),
    "TEST_INPUT_INVALID": Condition("The rows of {source} can't be given: {cause}.", "Correct the call of given(…)."),
    "TEST_VIEW_STREAMS": Condition(
        "{dataset} is a temporary view of a stream, whose rows are in no table.",
        "Compare the table that reads it.",
    ),
    "TEST_WRITE_NOT_ISOLATED": Condition(
        "{call} is not isolated: it would change what is outside of the sandbox.",
        "Write to a path, which stays in the sandbox, or let the call through with given({name!r}, real=True).",
    ),
    "TEST_READ_NOT_ISOLATED": Condition(
        "{call} is not isolated: it would read what is outside of the sandbox.",
        "Read it with `spark.read`, or let the call through with given({name!r}, real=True).",
    ),
    "TEST_MESSAGE_INVALID": Condition(
        "{message} is no message of the topic {topic}.",
        "Write a dict, a text, bytes, or a tuple of key and value.",
    ),
}
