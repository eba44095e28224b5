"""Test support for users' own tests: conformance suites, fakes and the crash harness.

Only tests import it.
"""
