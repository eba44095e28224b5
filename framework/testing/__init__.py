"""What ships to users' own tests: conformance suites, fakes and the crash harness.

Promises that nothing outside tests imports it.
"""
